package main

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// sandboxPathLimit is how long a path in a workspace may be, in bytes.
const sandboxPathLimit = 4096

// sandboxFile checks the path of a file in a workspace, as a page gives it, and
// returns its shortest form. The form never leaves the workspace by itself;
// links are another matter, for whoever opens it.
func sandboxFile(name string) (string, error) {
	switch {
	case name == "":
		return "", problemf(kindInvalid, "path must name a file in the workspace.")
	case len(name) > sandboxPathLimit:
		return "", problemf(kindInvalid, "path must be at most %d bytes long.", sandboxPathLimit)
	case strings.Contains(name, "\x00"):
		return "", problemf(kindInvalid, "path must not hold a NUL.")
	case strings.HasPrefix(name, "/"):
		return "", problemf(kindInvalid, "path must be relative to the workspace, without a leading slash.")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", problemf(kindInvalid, `path must not hold "..".`)
	}
	clean := path.Clean(name)
	if clean == "." || strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") {
		return "", problemf(kindInvalid, "path must name a file, not a folder.")
	}
	return clean, nil
}

// encodedName is a name that is not text: as shown in a list, and as it has to
// stand in a URL to mean this file.
type encodedName struct {
	Name    string `json:"name"`
	URLPath string `json:"url_path"`
}

// encodedNames picks those of names that JSON cannot carry.
func encodedNames(names []string) []encodedName {
	var odd []encodedName
	for _, name := range names {
		if !utf8.ValidString(name) {
			odd = append(odd, encodedName{Name: jsonText(name), URLPath: urlPath(name)})
		}
	}
	return odd
}

// jsonText is s as JSON can carry it, with one replacement character for each
// invalid byte.
func jsonText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// urlPath is a relative path as it stands in a URL.
func urlPath(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}
