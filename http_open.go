package main

// What anybody may read: that the runtime is there, what it can do, and its
// own page for a person.

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

const protocolVersion = "2025-01"

//go:embed page.html
var pageHTML string

type healthAnswer struct {
	Status string `json:"status"`
}

func (s *server) handleHealth(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, healthAnswer{"ok"})
}

type infoAnswer struct {
	RuntimeVersion  string   `json:"runtime_version"`
	ProtocolVersion string   `json:"protocol_version"`
	Capabilities    []string `json:"capabilities"`
	Addresses       []string `json:"addresses"`
}

func (s *server) handleInfo(w http.ResponseWriter, r *http.Request) error {
	can := s.capabilities
	if s.sandboxes.available(r.Context()) == nil {
		can = append(slices.Clone(can), "sandboxes")
	}
	return writeJSON(w, http.StatusOK, infoAnswer{s.version, protocolVersion, can, s.addresses()})
}

// handlePage serves a page that works where a browser lets no https page
// reach loopback: it tells whether the runtime runs, and nothing else may
// frame or feed it.
func (s *server) handlePage(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; style-src "+
		sourceHash(pageHTML, "style")+"; script-src "+sourceHash(pageHTML, "script")+
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write([]byte(pageHTML))
	return nil
}

// sourceHash names the text of the page's one element of this kind as a
// content security policy does.
func sourceHash(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	text, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
