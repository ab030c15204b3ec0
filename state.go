package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// stateVersion is the format of the state file. A file of another version is
// not read: a member that this version does not know may limit a grant.
const stateVersion = 1

// stateLimit is the size in bytes above which a state file is not read.
const stateLimit = 64 << 20

// maxLearnerID is the length of the longest learner id in characters.
const maxLearnerID = 128

var (
	clientNamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)
	hex64Pattern      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hex40Pattern      = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// stateData is all that the person granted. The maps are never nil in one
// that comes from the store.
type stateData struct {
	Version   int                    `json:"version"`
	Pairings  map[string]pairing     `json:"pairings"`  // by web origin
	Clients   map[string]localClient `json:"clients"`   // by name
	Approvals map[string]approval    `json:"approvals"` // by approvalKey
	Learners  map[string]learner     `json:"learners"`  // by learner id
}

// pairing lets the page of one web origin in.
type pairing struct {
	TokenHash string    `json:"token_hash"` // see hashToken
	Scope     scope     `json:"scope"`      // read as code when the file has none
	PairedAt  time.Time `json:"paired_at"`
}

// localClient lets one local program in.
type localClient struct {
	TokenHash string    `json:"token_hash"`
	Scope     scope     `json:"scope"`
	CreatedAt time.Time `json:"created_at"`
}

// approval lets one principal start the actions of one version of a lab.
type approval struct {
	ManifestSHA256 string    `json:"manifest_sha256"`
	ApprovedAt     time.Time `json:"approved_at"`
	Actions        []action  `json:"actions,omitempty"` // what was approved; only the newest of a principal and repo keeps it
}

// learner may create sandboxes.
type learner struct {
	Age        *int      `json:"age,omitempty"` // nil: nobody has verified it
	VerifiedAt time.Time `json:"verified_at,omitzero"`
	AddedAt    time.Time `json:"added_at"`
}

// newStateData grants nothing.
func newStateData() *stateData {
	data := &stateData{Version: stateVersion}
	data.fill()
	return data
}

func (d *stateData) fill() {
	if d.Pairings == nil {
		d.Pairings = make(map[string]pairing)
	}
	if d.Clients == nil {
		d.Clients = make(map[string]localClient)
	}
	if d.Approvals == nil {
		d.Approvals = make(map[string]approval)
	}
	if d.Learners == nil {
		d.Learners = make(map[string]learner)
	}
}

// approvalKey names the approval of one commit of a repo for one principal.
func approvalKey(p principal, repo, commit string) string {
	return string(p) + " " + repo + " " + commit
}

// splitApprovalKey is the reverse of approvalKey.
func splitApprovalKey(key string) (p principal, repo, commit string, ok bool) {
	parts := strings.Split(key, " ")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return principal(parts[0]), parts[1], parts[2], true
}

// approve records a. What the same principal approved of the same repo before
// stays approved and loses only its list of actions.
func (d *stateData) approve(p principal, repo, commit string, a approval) {
	for key, old := range d.Approvals {
		if old.Actions != nil && strings.HasPrefix(key, approvalKey(p, repo, "")) {
			old.Actions = nil
			d.Approvals[key] = old
		}
	}
	d.Approvals[approvalKey(p, repo, commit)] = a
}

// forget drops the approvals for which is holds, and returns their number.
func (d *stateData) forget(is func(p principal, repo string) bool) int {
	before := len(d.Approvals)
	maps.DeleteFunc(d.Approvals, func(key string, _ approval) bool {
		p, repo, _, ok := splitApprovalKey(key)
		return ok && is(p, repo)
	})
	return before - len(d.Approvals)
}

// decodeState reads the content of a state file. Whatever is not exactly as
// this program writes it is an error, and then nothing of it counts.
func decodeState(content []byte) (*stateData, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	data := &stateData{}
	if err := decoder.Decode(data); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the end")
	}
	data.fill()
	for origin, p := range data.Pairings {
		if p.Scope == "" {
			p.Scope = scopeCode
			data.Pairings[origin] = p
		}
	}
	if err := data.check(); err != nil {
		return nil, err
	}
	return data, nil
}

func encodeState(data *stateData) ([]byte, error) {
	if err := data.check(); err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(data, "", "  ")
	return append(content, '\n'), err
}

// check says what in d cannot have been granted by a person.
func (d *stateData) check() error {
	if d.Version != stateVersion {
		return fmt.Errorf("version %d is not known", d.Version)
	}
	for origin, p := range d.Pairings {
		if err := checkPairing(origin, p); err != nil {
			return fmt.Errorf("pairing %q: %w", origin, err)
		}
	}
	for name, c := range d.Clients {
		if err := checkClient(name, c); err != nil {
			return fmt.Errorf("client %q: %w", name, err)
		}
	}
	for key, a := range d.Approvals {
		if err := checkApproval(key, a); err != nil {
			return fmt.Errorf("approval %q: %w", key, err)
		}
	}
	for id, l := range d.Learners {
		if err := checkLearner(id, l); err != nil {
			return fmt.Errorf("learner %q: %w", id, err)
		}
	}
	return nil
}

func checkPairing(origin string, p pairing) error {
	if _, err := parseOrigin(origin); err != nil {
		return err
	}
	return checkGrant(p.TokenHash, p.Scope, p.PairedAt)
}

func checkClient(name string, c localClient) error {
	if !clientNamePattern.MatchString(name) {
		return errors.New("the name is not valid")
	}
	return checkGrant(c.TokenHash, c.Scope, c.CreatedAt)
}

func checkGrant(hash string, s scope, at time.Time) error {
	if !hex64Pattern.MatchString(hash) {
		return errors.New("the token's hash is not valid")
	}
	if _, err := parseScope(string(s)); err != nil {
		return err
	}
	return checkTime(at)
}

func checkApproval(key string, a approval) error {
	parts := strings.Split(key, " ")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || !hex40Pattern.MatchString(parts[2]) {
		return errors.New("it does not name a site, a repository and a commit")
	}
	if !hex64Pattern.MatchString(a.ManifestSHA256) {
		return errors.New("the manifest's hash is not valid")
	}
	return checkTime(a.ApprovedAt)
}

func checkLearner(id string, l learner) error {
	if n := utf8.RuneCountInString(id); n == 0 || n > maxLearnerID {
		return fmt.Errorf("the id has %d characters", n)
	}
	if l.Age != nil && *l.Age < 0 {
		return errors.New("the age is negative")
	}
	return errors.Join(checkTime(l.VerifiedAt), checkTime(l.AddedAt))
}

// checkTime refuses times that cannot be written.
func checkTime(t time.Time) error {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return errors.New("the time is not valid")
	}
	return nil
}
