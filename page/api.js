// Requests to the runtime, and why one failed.

// Refused is what the runtime says itself; anything else that is thrown here
// means that it did not answer.
export class Refused extends Error {}

export async function ask(method, path, { body, patience = 15, signal } = {}) {
  const signals = [AbortSignal.timeout(patience * 1000)];
  if (signal) signals.push(signal);
  const answer = await fetch(path, {
    method, signal: AbortSignal.any(signals), cache: 'no-store', credentials: 'omit', redirect: 'error', mode: 'same-origin',
    headers: body ? { 'Content-Type': 'application/json' } : {},
    body: body && JSON.stringify(body),
  });
  if (answer.status === 204) return null;
  const content = await answer.json();
  if (!answer.ok) throw new Refused(content.detail);
  return content;
}

// why says what went wrong in a sentence.
export function why(error) {
  return error instanceof Refused ? error.message : 'The runtime does not answer. Start it again with: agent-runtime serve';
}
