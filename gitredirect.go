package main

import (
	"bufio"
	"bytes"
	"io"
	"net/url"
	"os"
	"strings"
)

const gitTraceLimit = 4 << 20 // bytes read of a trace of headers

// redirectTarget reads from a trace of git's requests for repo where the host
// last pointed to, as the address of a repository; "" when it did not, or to
// one that no source may have.
func redirectTarget(traceFile, repo string) string {
	file, err := os.Open(traceFile)
	if err != nil {
		return ""
	}
	defer file.Close()
	trace, err := io.ReadAll(io.LimitReader(file, gitTraceLimit))
	if err != nil {
		return ""
	}
	location := lastLocation(trace)
	base, err := url.Parse(strings.TrimSuffix(repo, "/") + "/info/refs?service=git-upload-pack")
	if err != nil || location == "" {
		return ""
	}
	target, err := base.Parse(location)
	if err != nil {
		return ""
	}
	target.User, target.Fragment = nil, ""
	for _, request := range []string{"/info/refs", "/git-upload-pack"} {
		if path, ok := strings.CutSuffix(target.Path, request); ok {
			target.Path, target.RawPath, target.RawQuery = path, "", ""
		}
	}
	if address := target.String(); len(address) <= maxSourceURL {
		return address
	}
	return ""
}

// lastLocation returns the Location header of the last answer in a trace that
// has one and is a redirect.
func lastLocation(trace []byte) string {
	location, redirect := "", false
	lines := bufio.NewScanner(bytes.NewReader(trace))
	lines.Buffer(nil, gitTraceLimit)
	for lines.Scan() {
		_, header, ok := strings.Cut(lines.Text(), "<= Recv header: ")
		if !ok {
			continue
		}
		if status, ok := strings.CutPrefix(header, "HTTP/"); ok {
			_, code, _ := strings.Cut(status, " ")
			redirect = strings.HasPrefix(code, "3")
		}
		if name, value, ok := strings.Cut(header, ":"); ok && redirect && strings.EqualFold(name, "location") {
			location = strings.TrimSpace(value)
		}
	}
	return location
}
