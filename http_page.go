package main

// The runtime's own page. It works where a browser lets no https page reach
// loopback too, and shows a person what runs here in their name. Everything in
// it comes from this program, and the browser is told to take nothing else.

import (
	"embed"
	"net/http"
	"path"
)

//go:embed page
var pageFiles embed.FS

// pageTypes are the types of the page's files. A system's own table of types
// may be wrong, and browsers then run no module.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pagePolicy lets the page use its own files and the runtime, and nothing
// else: no script or style within the page, no frame around it, and no text
// that becomes markup.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (s *server) handlePage(w http.ResponseWriter, r *http.Request) error {
	return writePageFile(w, r, "index.html")
}

func (s *server) handlePageFile(w http.ResponseWriter, r *http.Request) error {
	return writePageFile(w, r, r.PathValue("file"))
}

func writePageFile(w http.ResponseWriter, r *http.Request, name string) error {
	content, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		return problemf(kindNotFound, "The runtime's own page has no file %q.", r.URL.Path)
	}
	h := w.Header()
	h.Set("Content-Type", pageTypes[path.Ext(name)])
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(content)
	return nil
}
