package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// principal is who a request acts for: the exact text of a web origin
// ("https://course.example.org"), a local program ("local:NAME"), or "local"
// when pairing is off and there is no origin. Two that differ in any byte are
// two principals; nothing here normalises.
type principal string

// maxHostLength is what the domain name system allows, without a final dot.
const maxHostLength = 253

var (
	hostNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)
	numberPattern   = regexp.MustCompile(`^([0-9]+|0[xX][0-9A-Fa-f]*)$`)
	portPattern     = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
)

// parseOrigin accepts s when it is a web origin that may act here: http or
// https, a host, at most a port, and nothing else; plain http only for a
// loopback host. The principal is s itself, letter for letter.
func parseOrigin(s string) (principal, error) {
	scheme, host, port, flaw := splitOrigin(s)
	if flaw == "" {
		flaw = hostFlaw(host)
	}
	if flaw == "" {
		flaw = portFlaw(port)
	}
	if flaw == "" && scheme == "http" && !loopbackHost(host) {
		flaw = "plain http is only for a page on this computer, others need https"
	}
	if flaw != "" {
		return "", problemf(kindUnacceptable, "The origin %q cannot be used: %s.", visible(shorten(s, 100)), flaw)
	}
	return principal(s), nil
}

// splitOrigin takes s apart: the scheme in lower case, host and port as they
// stand. The port keeps its colon, so that an empty one differs from none.
// flaw is empty, or says why s has no such parts.
func splitOrigin(s string) (scheme, host, port, flaw string) {
	scheme, rest, found := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "http" && scheme != "https" {
		return "", "", "", "it must be http:// or https:// with a host"
	}
	for i := range len(rest) {
		if c := rest[i]; c <= ' ' || c >= 0x7F {
			return "", "", "", "it may hold only visible ASCII characters (an international name is sent as xn--...)"
		}
	}
	if strings.ContainsAny(rest, `/\?#@`) {
		return "", "", "", "it must end after the host and port, without user, path, query or fragment"
	}
	end := strings.LastIndexByte(rest, ']') + 1
	if colon := strings.IndexByte(rest[end:], ':'); colon >= 0 {
		return scheme, rest[:end+colon], rest[end+colon:], ""
	}
	return scheme, rest, "", ""
}

// hostFlaw says what keeps host from being a domain name, a dotted IPv4
// address or a bracketed IPv6 address as browsers write them, or nothing.
func hostFlaw(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" || addr.String() != inner {
			return "the address in brackets must be an IPv6 address in its short form, such as [::1]"
		}
		return ""
	}
	if len(strings.TrimSuffix(host, ".")) > maxHostLength {
		return "the host is longer than 253 characters"
	}
	if !hostNamePattern.MatchString(host) {
		return "it must name a host with letters, digits, dots and hyphens"
	}
	name := strings.TrimSuffix(host, ".")
	if last := name[strings.LastIndexByte(name, '.')+1:]; numberPattern.MatchString(last) {
		if _, err := netip.ParseAddr(host); err != nil {
			return "the host must be a name, or an IPv4 address of four numbers from 0 to 255"
		}
	}
	return ""
}

// portFlaw says what is wrong with a port that still has its colon.
func portFlaw(port string) string {
	digits, given := strings.CutPrefix(port, ":")
	if n, _ := strconv.Atoi(digits); given && (!portPattern.MatchString(digits) || n > 65535) {
		return "the port must be a number from 1 to 65535"
	}
	return ""
}

// loopback reports whether p is a web origin on this computer by its literal
// host. A name that merely resolves to a loopback address is not.
func (p principal) loopback() bool {
	if _, err := parseOrigin(string(p)); err != nil {
		return false
	}
	_, host, _, _ := splitOrigin(string(p))
	return loopbackHost(host)
}

// loopbackHost reports whether host, without a port, is literally this
// computer: localhost in any case, 127.0.0.0/8 as four plain numbers, or ::1
// with or without brackets.
func loopbackHost(host string) bool {
	// The length keeps out letters beyond ASCII that fold to ASCII ones.
	if len(host) == len("localhost") && strings.EqualFold(host, "localhost") {
		return true
	}
	if host == "[::1]" || host == "::1" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Is4() && addr.IsLoopback()
}

// originNotes are the lines that a person should read beside p, because of
// them p may be mistaken for another site. Most origins have none.
func originNotes(p principal) []string {
	scheme, host, port, flaw := splitOrigin(string(p))
	if flaw != "" {
		return nil
	}
	var notes []string
	for label := range strings.SplitSeq(host, ".") {
		if len(label) >= 4 && strings.EqualFold(label[:4], "xn--") {
			notes = append(notes, fmt.Sprintf("%q stands for letters beyond ASCII; browsers show it as a name that may look like another.", label))
		}
	}
	if strings.HasSuffix(host, ".") {
		notes = append(notes, "The host ends in a dot: this is not the same site as the one without it.")
	}
	if string(p) != strings.ToLower(string(p)) {
		notes = append(notes, "It is written with capital letters, which browsers never send: this is not the same site as the one in small letters.")
	}
	if usual := map[string]string{"http": ":80", "https": ":443"}[scheme]; port != "" && port != usual {
		notes = append(notes, fmt.Sprintf("It is served from port %s, not from the usual %s.", port[1:], usual[1:]))
	}
	return notes
}
