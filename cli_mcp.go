package main

// The command that agents start: the MCP server on standard input and output.

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

// tokenFileLimit is how many bytes of a file are read for a token.
const tokenFileLimit = 4096

func agentCommands() []command {
	return []command{{"mcp", "[--url URL] [--token-file FILE]",
		"let an agent use the running runtime, as a Model Context Protocol server", runMCP}}
}

func runMCP(_ context.Context, c *cli, args []string) error {
	flags := newFlags("mcp")
	address := flags.String("url", c.getenv("AGENT_RUNTIME_URL"), "where the runtime listens")
	// A token on the command line could be read by every program.
	tokenFile := flags.String("token-file", "", "the file that holds the token")
	if _, err := parseArgs(flags, args); err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	token, err := agentToken(c, *tokenFile)
	if err != nil {
		return err
	}
	if *address == "" {
		*address = runtimeAddress(cfg)
	}
	certificates, err := ownCertificate(cfg.dir, *address)
	if err != nil {
		return err
	}
	client, err := newRuntimeClient(*address, token, certificates)
	if err != nil {
		return err
	}
	defer client.close()
	asked, _, stop := endSignals()
	defer stop()
	return newMCPSession(client, programVersion(), c.stdout).serve(asked, c.stdin)
}

// runtimeAddress is where a runtime of this configuration listens.
func runtimeAddress(cfg config) string {
	host := cfg.host
	if !loopbackHost(host) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(cfg.port))
}

// agentToken is the token in a file, or in the environment when none is named.
// There need not be one: the runtime says so when it wants one.
func agentToken(c *cli, path string) (secretToken, error) {
	text, where := c.getenv("AGENT_RUNTIME_TOKEN"), "The variable AGENT_RUNTIME_TOKEN"
	if path != "" {
		where = "The file " + path
		file, err := os.Open(path)
		if err != nil {
			return secretToken{}, problemf(kindNotFound, "%s cannot be opened: --token-file names the file that holds the token.", where).because(err)
		}
		defer file.Close()
		data, err := io.ReadAll(io.LimitReader(file, tokenFileLimit))
		text = strings.TrimSpace(string(data))
		if err != nil || text == "" {
			return secretToken{}, problemf(kindUnacceptable, "%s holds no token: it must be what `agent-runtime token create` printed.", where).because(err)
		}
	}
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return secretToken{}, problemf(kindUnacceptable, "%s does not hold a token: it must be what `agent-runtime token create` printed, and nothing else.", where)
	}
	return secretToken{text}, nil
}

// ownCertificate is what an https address must prove itself with: the
// certificate of the data folder dir and no other.
func ownCertificate(dir, address string) (*x509.CertPool, error) {
	if !strings.HasPrefix(address, "https:") {
		return nil, nil
	}
	pair, err := openCertificate(dir)
	if err != nil {
		return nil, problemf(kindUnacceptable, "%s cannot prove itself: %v. Use the http address, or run `agent-runtime tls setup`.", visible(address), err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return pool, nil
}
