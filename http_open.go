package main

// What anybody may read: that the runtime is there, and what it can do.

import (
	"net/http"
	"slices"
)

const protocolVersion = "2025-01"

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
