package main

// The table of routes: what is served, and the scope that each route needs.
// A route without a scope does not register. The chain around the table is
// here too, since it answers for what the table lacks.

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// routes lists every endpoint of s.
func routes(s *server) []route {
	return slices.Concat(openRoutes(s), labRoutes(s), kernelRoutes(s), sandboxRoutes(s), manageRoutes(s))
}

func openRoutes(s *server) []route {
	return []route{
		{"GET", "/{$}", scopeOpen, s.handlePage, routeDoc{
			summary: "The runtime's own page, for a person who opens it in a browser", media: "text/html"}},
		{"GET", "/page/{file}", scopeOpen, s.handlePageFile, routeDoc{
			summary: "What the runtime's own page is made of", media: "*/*", problems: []int{404}}},
		{"GET", "/health", scopeOpen, s.handleHealth, routeDoc{
			summary: "Whether the runtime answers", answer: healthAnswer{}}},
		{"GET", "/runtime/info", scopeOpen, s.handleInfo, routeDoc{
			summary: "Version, capabilities and addresses", answer: infoAnswer{}}},
		{"GET", "/openapi.json", scopeOpen, s.handleOpenAPI, routeDoc{
			summary: "This description", answer: map[string]any{}}},
		{"POST", "/pairing/request", scopeOpen, s.handlePairingRequest, routeDoc{
			summary: "Ask the person at the terminal for access; held open until they answer",
			body:    pairingBody{}, optional: true, answer: pairingAnswer{}, problems: []int{400, 403, 409, 410, 429, 503}}},
		{"GET", "/runtime/whoami", scopeAny, s.handleWhoami, routeDoc{
			summary: "Who the caller is, and with which scope", answer: whoamiAnswer{}}},
	}
}

func labRoutes(s *server) []route {
	return []route{
		{"GET", "/labs", scopeActions, s.handleLabsList, routeDoc{
			summary: "The labs whose actions this site may start, and the approved versions that it would have to prepare first", answer: labsAnswer{}}},
		{"POST", "/labs/prepare", scopeActions, s.handleLabsPrepare, routeDoc{
			summary: "Fetch a lab at a commit, have it approved in the terminal, make its environment",
			body:    prepareBody{}, answer: labAnswer{}, problems: []int{400, 404, 410, 429, 500, 502, 503, 504}}},
		{"POST", "/labs/runs", scopeActions, s.handleRunsStart, routeDoc{
			summary: "Start an action of a prepared lab", body: startBody{}, answer: runFull{}, problems: []int{404, 409, 503}}},
		{"GET", "/labs/runs", scopeActions, s.handleRunsList, routeDoc{
			summary: "This site's runs, oldest first, without their output",
			query:   []param{{"lab_id", "string", "Only the runs of this lab"}}, answer: runsFull{}}},
		{"GET", "/labs/runs/{run_id}", scopeActions, s.handleRunsGet, routeDoc{
			summary: "A run and its output from an offset on",
			query:   runQuery(), answer: runFull{}, problems: []int{404}}},
		{"POST", "/labs/runs/{run_id}/stop", scopeActions, s.handleRunsStop, routeDoc{
			summary: "Stop a run; answers once it has ended", query: runQuery()[:1], answer: runFull{}, problems: []int{404}}},
	}
}

func kernelRoutes(s *server) []route {
	lab := []param{{"lab_id", "string", "The lab; it must be given"}}
	return []route{
		{"POST", "/kernel/start", scopeCode, s.handleKernelStart, routeDoc{
			summary: "Start a lab's kernel, with its environment, unless it runs",
			body:    kernelStartBody{}, answer: kernelAnswer{}, problems: []int{404, 409, 500, 503}}},
		{"GET", "/kernel/status", scopeCode, s.handleKernelStatus, routeDoc{
			summary: "Whether a lab's kernel is running, busy or starting", query: lab, answer: kernelAnswer{}, problems: []int{404}}},
		{"GET", "/kernel/list", scopeCode, s.handleKernelList, routeDoc{
			summary: "This site's kernels", answer: kernelListAnswer{}}},
		{"POST", "/kernel/interrupt", scopeCode, s.handleKernelInterrupt, routeDoc{
			summary: "Tell a kernel to leave its cell", query: lab, answer: kernelInterruptAnswer{}, problems: []int{404}}},
		{"POST", "/kernel/restart", scopeCode, s.handleKernelRestart, routeDoc{
			summary: "End a kernel and start a new one; cells that wait do not run", query: lab, answer: kernelAnswer{}, problems: []int{404, 500, 503}}},
		{"DELETE", "/kernel", scopeCode, s.handleKernelShutdown, routeDoc{
			summary: "End a kernel; the lab's environment stays", query: lab, answer: kernelShutdownAnswer{}, problems: []int{404}}},
		{"POST", "/kernel/packages/install", scopeCode, s.handlePackagesInstall, routeDoc{
			summary: "Install packages into a lab's environment", body: packagesBody{}, answer: packagesAnswer{}, problems: []int{404, 500}}},
		{"POST", "/cell/run", scopeCode, s.handleCellRun, routeDoc{
			summary: "Run a cell and answer with all its outputs", body: cellBody{}, answer: cellAnswer{}, problems: []int{429, 500, 503}}},
		{"POST", "/cell/run/stream", scopeCode, s.handleCellStream, routeDoc{
			summary: "Run a cell and answer with its outputs as they come", body: cellBody{}, media: "text/event-stream", problems: []int{429, 500, 503}}},
		{"GET", "/cell/{cell_id}", scopeCode, s.handleCell, routeDoc{
			summary: "One of the last cells of a lab, running or done", query: lab, answer: storedCellAnswer{}, problems: []int{404}}},
	}
}

func sandboxRoutes(s *server) []route {
	return []route{
		{"POST", "/v1/sandboxes", scopeSandbox, s.handleSandboxesCreate, routeDoc{
			summary: "Make a sandbox for a learner, empty or from a snapshot",
			body:    sandboxBody{}, answer: sandboxAnswer{}, status: http.StatusCreated, problems: []int{404, 429, 503}}},
		{"GET", "/v1/sandboxes", scopeSandbox, s.handleSandboxesList, routeDoc{
			summary: "This site's active sandboxes, oldest first", answer: sandboxesAnswer{}}},
		{"GET", "/v1/sandboxes/{id}", scopeSandbox, s.handleSandboxesGet, routeDoc{
			summary: "An active sandbox", answer: sandboxAnswer{}, problems: []int{404}}},
		{"DELETE", "/v1/sandboxes/{id}", scopeSandbox, s.handleSandboxesDelete, routeDoc{
			summary: "End a sandbox and all that runs in it; its snapshots stay for a while",
			status:  http.StatusNoContent, problems: []int{404}}},
		{"POST", "/v1/sandboxes/{id}/snapshot", scopeSandbox, s.handleSandboxesSnapshot, routeDoc{
			summary: "Copy the workspace as it is between two commands", answer: snapshotAnswer{}, problems: []int{404, 409, 429, 503}}},
		{"GET", "/v1/sandboxes/{id}/files", scopeSandbox, s.handleSandboxesFiles, routeDoc{
			summary: "The names in the workspace",
			query:   []param{{"recursive", "boolean", "All paths, folders with a slash at the end"}}, answer: filesAnswer{}, problems: []int{404, 409, 413}}},
		{"GET", "/v1/sandboxes/{id}/files/{path...}", scopeSandbox, s.handleSandboxesRead, routeDoc{
			summary: "A file of the workspace",
			query:   []param{{"encoding", "string", "base64 for the bytes as they are"}}, answer: fileAnswer{}, problems: []int{404, 409, 413}}},
		{"PUT", "/v1/sandboxes/{id}/files/{path...}", scopeSandbox, s.handleSandboxesWrite, routeDoc{
			summary: "Write a file of the workspace, whole or not at all", body: writeBody{}, answer: writtenAnswer{}, problems: []int{404, 409, 503}}},
		{"POST", "/v1/sandboxes/{id}/exec", scopeSandbox, s.handleSandboxesExec, routeDoc{
			summary: "Run a command in the sandbox and answer when it has ended", body: execBody{}, answer: execAnswer{}, problems: []int{404, 409, 429, 503}}},
		{"GET", "/v1/sandboxes/{id}/events", scopeSandbox, s.handleSandboxesEvents, routeDoc{
			summary: "What was done in a sandbox that has a task, oldest first",
			query:   []param{{"after", "integer", "Only events with a larger number"}}, answer: sandboxEventsAnswer{}, problems: []int{404}}},
	}
}

// manageRoutes are for the runtime's own page. Their paths begin with
// ownPrefix, where no other page may even ask.
func manageRoutes(s *server) []route {
	return []route{
		{"GET", "/manage/overview", scopeOwn, s.handleOverview, routeDoc{
			summary: "All that runs in the person's name and all that they granted", answer: overviewAnswer{}}},
		{"GET", "/manage/doctor", scopeOwn, s.handleDoctor, routeDoc{
			summary: "What works on this machine, and what to do about the rest", answer: diagnosis{}}},
		{"GET", "/manage/sizes", scopeOwn, s.handleSizes, routeDoc{
			summary: "What environments and sandboxes take on the disk, in bytes", answer: sizesAnswer{}}},
		{"GET", "/manage/runs/{run_id}", scopeOwn, s.handleOwnRun, routeDoc{
			summary: "Anybody's run and its output from an offset on", query: runQuery(), answer: runFull{}, problems: []int{404}}},
		{"POST", "/manage/runs/{run_id}/stop", scopeOwn, s.handleOwnRunStop, routeDoc{
			summary: "Stop anybody's run; answers once it has ended", query: runQuery()[:1], answer: runFull{}, problems: []int{404}}},
		{"POST", "/manage/sites/revoke", scopeOwn, s.handleSiteRevoke, routeDoc{
			summary: "Take a site's access away, with all it had approved; its actions are stopped",
			body:    revokeSiteBody{}, status: http.StatusNoContent, problems: []int{404, 503}}},
		{"POST", "/manage/clients/revoke", scopeOwn, s.handleClientRevoke, routeDoc{
			summary: "Take a local program's access away; its actions are stopped",
			body:    revokeClientBody{}, status: http.StatusNoContent, problems: []int{404, 503}}},
		{"POST", "/manage/labs/forget", scopeOwn, s.handleLabForget, routeDoc{
			summary: "Take back every approval of a repository", body: forgetBody{}, status: http.StatusNoContent, problems: []int{404, 503}}},
		{"POST", "/manage/kernels/shutdown", scopeOwn, s.handleOwnKernelShutdown, routeDoc{
			summary: "End anybody's kernel; the lab's environment stays",
			body:    shutdownBody{}, status: http.StatusNoContent, problems: []int{404}}},
		{"DELETE", "/manage/environments/{id}", scopeOwn, s.handleEnvironmentDelete, routeDoc{
			summary: "Delete a Python environment that nothing uses", status: http.StatusNoContent, problems: []int{404, 409, 422}}},
		{"DELETE", "/manage/sandboxes/{id}", scopeOwn, s.handleOwnSandboxDelete, routeDoc{
			summary: "End anybody's sandbox and all that runs in it; its snapshots stay for a while",
			status:  http.StatusNoContent, problems: []int{404}}},
	}
}

// runQuery is how a run's output is asked for.
func runQuery() []param {
	return []param{
		{"offset", "integer", "Characters of output that are already known"},
		{"wait", "number", "Seconds, up to 30, to hold the answer for news"},
	}
}

func (s *server) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, openAPI(s.version, routes(s)))
}

// newHandler serves the table with all that surrounds it.
func newHandler(s *server) http.Handler {
	mux := http.NewServeMux()
	methods := []string{}
	for _, rt := range routes(s) {
		if rt.scope == "" {
			panic("route " + rt.pattern + " has no scope")
		}
		methods = append(methods, rt.method)
		mux.HandleFunc(rt.method+" "+rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			s.answer(w, r, s.protect(rt.scope, rt.handler))
		})
	}
	slices.Sort(methods)
	d := &dispatcher{server: s, mux: mux, methods: slices.Compact(methods)}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, d.noRoute) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, d.dispatch) })
}

// dispatcher finds the route of a request, behind the checks that all share.
type dispatcher struct {
	server  *server
	mux     *http.ServeMux
	methods []string // that any route uses
}

func (d *dispatcher) dispatch(w http.ResponseWriter, r *http.Request) error {
	limitBody(w, r)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Origin")
	d.server.log.Debug("request", "method", r.Method, "path", r.URL.Path, "origin", r.Header.Get("Origin"))
	if !d.server.hostAllowed(r) {
		return problemf(kindMisdirected, "The Host %q is not this runtime; use 127.0.0.1 or localhost with its port.", r.Host)
	}
	if own := strings.HasPrefix(r.URL.Path, ownPrefix); own {
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
	} else {
		setCORS(h, r)
	}
	if foreignPeer(r) {
		return problemf(kindForbidden, "The connection belongs to another account of this computer; only the account that runs the runtime may use it.")
	}
	if p := r.URL.EscapedPath(); p != cleanPath(p) {
		return problemf(kindInvalid, "The path must not hold empty, %q or %q parts.", ".", "..")
	}
	if r.Method == http.MethodOptions {
		return d.preflight(w, r)
	}
	// The query's own reader drops what it cannot read.
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return problemf(kindInvalid, "The query is not valid: names and values must be percent-encoded and joined with &.")
	}
	d.mux.ServeHTTP(w, r)
	return nil
}

// cleanPath is path.Clean that keeps a last slash.
func cleanPath(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// preflight answers for every path: a page could not read the 404 of one that
// is not there if its browser was refused the question.
func (d *dispatcher) preflight(w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, ownPrefix) {
		return checkOwnPage(r) // which needs no leave to ask
	}
	allowed := d.allowed(r)
	if len(allowed) == 0 {
		allowed = d.methods
	}
	answerPreflight(w, r, allowed)
	return nil
}

func (d *dispatcher) noRoute(w http.ResponseWriter, r *http.Request) error {
	allowed := d.allowed(r)
	if len(allowed) == 0 {
		return noSuchPath(r)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return problemf(kindMethod, "%s cannot be used on this path; it takes %s.", r.Method, strings.Join(allowed, ", "))
}

func noSuchPath(r *http.Request) error {
	return problemf(kindNotFound, "There is nothing at %q; /openapi.json lists what there is.", r.URL.Path)
}

// allowed lists the methods that the request's path takes.
func (d *dispatcher) allowed(r *http.Request) []string {
	var found []string
	for _, method := range d.methods {
		probe := *r
		probe.Method = method
		if _, pattern := d.mux.Handler(&probe); pattern != "/" {
			found = append(found, method)
		}
	}
	if slices.Contains(found, http.MethodGet) {
		found = append(found, http.MethodHead) // the mux takes it for every GET
	}
	if len(found) > 0 {
		found = append(found, http.MethodOptions)
	}
	return found
}

// protect lets a handler be reached only by callers whose scope allows need.
func (s *server) protect(need scope, h handlerFunc) handlerFunc {
	switch need {
	case scopeOpen:
		return h
	case scopeOwn:
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := checkOwnPage(r); err != nil {
				return err
			}
			return h(w, r)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.identify(r)
		if err != nil {
			return err
		}
		if need != scopeAny && !c.scope.allows(need) {
			return problemf(kindForbidden, "This needs the scope %q, and %s has the scope %q; pair again with the one that is needed.", need, c.principal, c.scope)
		}
		return s.withAccess(context.WithValue(r.Context(), callerKey{}, c), c, need, func(ctx context.Context) error {
			return h(w, r.WithContext(ctx))
		})
	}
}
