package main

import (
	"net/http"
)

// pairingBody is the optional body of a pairing request.
type pairingBody struct {
	Scope *string `json:"scope"` // "code" when absent
}

func (b pairingBody) validate() error {
	_, err := b.scope()
	return err
}

func (b pairingBody) scope() (scope, error) {
	if b.Scope == nil {
		return scopeCode, nil
	}
	return parseScope(*b.Scope)
}

type pairingAnswer struct {
	Origin string `json:"origin"`
	Token  string `json:"token"`
	Scope  scope  `json:"scope"`
}

func (s *server) handlePairingRequest(w http.ResponseWriter, r *http.Request) error {
	if !s.cfg.requirePairing {
		return problemf(kindConflict, "Pairing is switched off in this runtime; requests need no token.")
	}
	origin, err := soleOrigin(r)
	if err != nil {
		return err
	}
	body, _, err := decodeOptional[pairingBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	wanted, err := body.scope()
	if err != nil {
		return err
	}
	secret, err := s.pairings.request(r.Context(), origin, wanted)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, pairingAnswer{Origin: string(origin), Token: secret.reveal(), Scope: wanted})
}

// soleOrigin returns the valid web origin of the request.
func soleOrigin(r *http.Request) (principal, error) {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return "", problemf(kindUnacceptable, "Pairing needs exactly one Origin header, which browsers send by themselves.")
	}
	return parseOrigin(origins[0])
}

type whoamiAnswer struct {
	Principal principal `json:"principal"`
	Scope     scope     `json:"scope"`
}

func (s *server) handleWhoami(w http.ResponseWriter, r *http.Request) error {
	c := callerOf(r)
	return writeJSON(w, http.StatusOK, whoamiAnswer{c.principal, c.scope})
}
