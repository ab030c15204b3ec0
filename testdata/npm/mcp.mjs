// Connects to an MCP server, whose command line is given, as an agent does with
// the public client. Prints what the server says of itself and its tools, then
// calls the tool that each line of the input names, and prints what it gave.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");

async function call(client, { name, args, cancel, silent }) {
  const progress = [];
  const abort = new AbortController();
  const options = { signal: abort.signal, timeout: 300_000, resetTimeoutOnProgress: true };
  if (!silent) {
    options.onprogress = (news) => {
      progress.push(news);
      if (cancel) abort.abort("no longer wanted");
    };
  }
  try {
    const result = await client.callTool({ name, arguments: args }, undefined, options);
    return { ...result, progress };
  } catch (error) {
    return { error: error.message, code: error.code, progress };
  }
}

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "agent", version: "1.0.0" });
const faults = [];
client.onerror = (error) => faults.push(error.message);
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
print({ server: client.getServerVersion(), instructions: client.getInstructions(), ...(await client.listTools()) });
await client.ping();
for await (const line of createInterface({ input: process.stdin })) {
  print(await call(client, JSON.parse(line)));
}
await client.close();
print({ faults });
