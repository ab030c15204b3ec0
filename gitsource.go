package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxSourceURL = 500 // characters
	maxKeyName   = 60  // characters of a repo key before its hash
)

// source is one commit of one repository, as a page names it. Its values are
// checked: see parseSource.
type source struct{ repo, commit string }

var (
	sourceHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?$`)
	hexDigits  = regexp.MustCompile(`^[0-9A-Fa-f]+$`)
	keyUnsafe  = regexp.MustCompile(`[^A-Za-z0-9_]+`)
)

// parseSource accepts an https address of a repository, kept as it is written,
// and the whole id of a commit. Anything else is a problem of kind
// kindUnacceptable.
func parseSource(repo, commit string) (source, error) {
	if reason := repoMistake(repo); reason != "" {
		return source{}, problemf(kindUnacceptable, "The repo %s", reason)
	}
	if reason := commitMistake(commit); reason != "" {
		return source{}, problemf(kindUnacceptable, "The commit %s", reason)
	}
	return source{repo: repo, commit: commit}, nil
}

// repoMistake says what is wrong with the address; "" when nothing is.
func repoMistake(repo string) string {
	if utf8.RuneCountInString(repo) > maxSourceURL {
		return "is longer than " + strconv.Itoa(maxSourceURL) + " characters."
	}
	if !strings.HasPrefix(repo, "https://") {
		return "must be an address that starts with https://."
	}
	isOutside := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
	if strings.ContainsFunc(repo, isOutside) {
		return "must be an address without blanks, backslashes, control characters or letters beyond ASCII."
	}
	u, err := url.Parse(repo)
	if err != nil {
		return "must be a valid https address, such as https://example.org/name/lab."
	}
	switch {
	case u.User != nil:
		return "must be an address without a user name or password."
	case strings.Contains(repo, "?"):
		return "must be an address without a query (the part after ?)."
	case strings.Contains(repo, "#"):
		return "must be an address without a fragment (the part after #)."
	case !validHost(u.Host):
		return "must be an address with a valid host, and a port from 1 to 65535 if it names one."
	case hasDotSegment(u.Path):
		return `must be an address without "." or ".." as a part of its path.`
	}
	return ""
}

// validHost checks the part of an address between // and the path.
func validHost(hostPort string) bool {
	host, port := hostPort, "443"
	if i := strings.LastIndexByte(hostPort, ':'); i > strings.LastIndexByte(hostPort, ']') {
		host, port = hostPort[:i], hostPort[i+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && strings.HasSuffix(inner, "]") && addr.Is6() && addr.Zone() == ""
	}
	return sourceHost.MatchString(host)
}

func hasDotSegment(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// commitMistake says what is wrong with the id; "" when nothing is.
func commitMistake(commit string) string {
	_, ok := parseObjectID(commit)
	switch {
	case ok:
		return ""
	case len(commit) == 64 && hexDigits.MatchString(commit):
		return "has 64 digits: only repositories whose commit ids have 40 digits (SHA-1) are supported."
	case len(commit) == 40 && hexDigits.MatchString(commit):
		return "must be written with lower-case letters a to f."
	}
	return "must be the whole id of a commit: exactly 40 digits 0 to 9 and a to f in lower case, not a branch, a tag or a short id."
}

// key names the folder of a repository: readable, and different for every
// address.
func (s source) key() string {
	path := strings.TrimRight(strings.TrimPrefix(s.repo, "https://"), "/")
	_, name := cutLast(path, '/')
	name = keyUnsafe.ReplaceAllString(strings.TrimSuffix(name, ".git"), "-")
	name = strings.Trim(name[:min(len(name), maxKeyName)], "-")
	if name == "" {
		name = "lab"
	}
	sum := sha256.Sum256([]byte(s.repo))
	return name + "-" + hex.EncodeToString(sum[:4])
}

// cutLast cuts s at the last sep; before is empty when there is none.
func cutLast(s string, sep byte) (before, after string) {
	i := strings.LastIndexByte(s, sep)
	return s[:max(i, 0)], s[i+1:]
}
