package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// raw sends bytes as they are and reads the answer.
func (rt *testRuntime) raw(request string) reply {
	rt.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(rt.addr, "http://"))
	if err != nil {
		rt.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request); err != nil {
		return reply{err: err}
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{err: err}
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return reply{status: answer.StatusCode, header: answer.Header, body: data, err: err}
}

// ask makes a request with these header lines, and a body when it is not empty.
func (rt *testRuntime) ask(method, path, body string, headers ...string) reply {
	rt.t.Helper()
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path, strings.TrimPrefix(rt.addr, "http://"))
	for _, line := range headers {
		head.WriteString(line + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", len(body))
	}
	return rt.raw(head.String() + "\r\n" + body)
}

func (rt *testRuntime) port() string { return rt.addr[strings.LastIndexByte(rt.addr, ':')+1:] }

// clientToken makes a token for a local program.
func (rt *testRuntime) clientToken(name string, s scope) string {
	rt.t.Helper()
	cmd := rt.program("token", "create", name, "--scope", string(s))
	out, err := cmd.Output()
	if err != nil {
		rt.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestCallersGetWhatTheTableOfPrincipalsSays(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	const origin = "https://course.example.test"
	page := rt.pair(origin, scopeActions)
	other := rt.pair("https://other.example.test", scopeSandbox)
	token := rt.clientToken("tool", scopeActions)
	bearer := func(token string) string { return "Authorization: Bearer " + token }
	for name, c := range map[string]struct {
		headers []string
		status  int
		as      string // principal and scope
	}{
		"page on localhost":                {[]string{"Origin: http://localhost:3000"}, 200, "http://localhost:3000 code"},
		"page on 127.0.0.1":                {[]string{"Origin: http://127.0.0.1"}, 200, "http://127.0.0.1 code"},
		"page on another loopback address": {[]string{"Origin: https://127.9.8.7:1"}, 200, "https://127.9.8.7:1 code"},
		"page on ::1":                      {[]string{"Origin: http://[::1]:8080"}, 200, "http://[::1]:8080 code"},
		"own page":                         {[]string{"Sec-Fetch-Site: same-origin"}, 200, rt.addr + " code"},
		"own page with a cross site":       {[]string{"Sec-Fetch-Site: cross-site"}, 401, ""},
		"own page with a same site":        {[]string{"Sec-Fetch-Site: same-site"}, 401, ""},
		"typed address":                    {[]string{"Sec-Fetch-Site: none"}, 401, ""},
		"nobody":                           {nil, 401, ""},
		"paired page":                      {[]string{"Origin: " + origin, bearer(page.token)}, 200, origin + " actions"},
		"paired page, bearer in capitals":  {[]string{"Origin: " + origin, "Authorization: BEARER  " + page.token}, 200, origin + " actions"},
		"paired page without its token":    {[]string{"Origin: " + origin}, 401, ""},
		"no token after Bearer":            {[]string{"Origin: " + origin, "Authorization: Bearer"}, 401, ""},
		"two words after Bearer":           {[]string{"Origin: " + origin, bearer(page.token + " x")}, 401, ""},
		"another kind of authorization":    {[]string{"Origin: " + origin, "Authorization: Basic " + page.token}, 401, ""},
		"two authorizations":               {[]string{"Origin: " + origin, bearer(page.token), bearer(page.token)}, 401, ""},
		"wrong token":                      {[]string{"Origin: " + origin, bearer("x" + page.token)}, 403, ""},
		"token of another origin":          {[]string{"Origin: " + origin, bearer(other.token)}, 403, ""},
		"local token with an origin":       {[]string{"Origin: " + origin, bearer(token)}, 403, ""},
		"page's token without an origin":   {[]string{bearer(page.token)}, 401, ""},
		"local program":                    {[]string{bearer(token)}, 200, "local:tool actions"},
		"local program, wrong token":       {[]string{bearer("y" + token)}, 403, ""},
		"unpaired page":                    {[]string{"Origin: https://unpaired.example"}, 401, ""},
		"unpaired page with a token":       {[]string{"Origin: https://unpaired.example", bearer(page.token)}, 403, ""},
		"name that ends like the paired":   {[]string{"Origin: " + origin + ".bad.test", bearer(page.token)}, 403, ""},
		"name that begins like it":         {[]string{"Origin: https://badcourse.example.test", bearer(page.token)}, 403, ""},
		"paired host over http":            {[]string{"Origin: http://course.example.test", bearer(page.token)}, 403, ""},
		"paired host on another port":      {[]string{"Origin: " + origin + ":444", bearer(page.token)}, 403, ""},
		"paired host with its own port":    {[]string{"Origin: " + origin + ":443", bearer(page.token)}, 403, ""},
		"paired host with a slash":         {[]string{"Origin: " + origin + "/", bearer(page.token)}, 403, ""},
		"paired host in capitals":          {[]string{"Origin: https://COURSE.example.test", bearer(page.token)}, 403, ""},
		"paired host with a dot":           {[]string{"Origin: " + origin + ".", bearer(page.token)}, 403, ""},
		"two origins":                      {[]string{"Origin: " + origin, "Origin: http://localhost", bearer(page.token)}, 403, ""},
		"two origins in one line":          {[]string{"Origin: http://localhost, " + origin}, 401, ""},
		"null":                             {[]string{"Origin: null"}, 401, ""},
		"null with a token":                {[]string{"Origin: null", bearer(page.token)}, 403, ""},
		"empty origin":                     {[]string{"Origin: ", bearer(page.token)}, 403, ""},
		"localhost look-alike":             {[]string{"Origin: http://localhost.example.com"}, 401, ""},
		"address look-alike":               {[]string{"Origin: https://127.0.0.1.nip.io"}, 401, ""},
		"loopback with user info":          {[]string{"Origin: http://localhost@evil.example"}, 401, ""},
		"extension":                        {[]string{"Origin: chrome-extension://abcdef"}, 401, ""},
		"unspecified address":              {[]string{"Origin: http://0.0.0.0:9477"}, 401, ""},
		"short loopback address":           {[]string{"Origin: http://127.1"}, 401, ""},
	} {
		r := rt.ask("GET", "/runtime/whoami", "", c.headers...)
		if r.err != nil || r.status != c.status {
			t.Errorf("%s: status %d, %v, %s; want %d", name, r.status, r.err, r.body, c.status)
			continue
		}
		if c.as == "" {
			if r.detail() == "" || strings.Contains(string(r.body), page.token) {
				t.Errorf("%s: body %s", name, r.body)
			}
			continue
		}
		who := asJSON[struct{ Principal, Scope string }](t, r)
		if got := who.Principal + " " + who.Scope; got != c.as {
			t.Errorf("%s: is %s, want %s", name, got, c.as)
		}
	}
	r := other.want(http.StatusForbidden, "GET", "/labs/runs", nil)
	if !strings.Contains(r.detail(), `"actions"`) || !strings.Contains(r.detail(), `"sandbox"`) {
		t.Errorf("detail %q does not name the scope needed and the one given", r.detail())
	}
}

func TestWithoutPairingTheOriginIsBelieved(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t, withEnv("AGENT_RUNTIME_REQUIRE_PAIRING=false"))
	rt.screen.await(t, 0, "WARNING: pairing is off")
	for origin, want := range map[string]int{"https://any.example": 200, "": 200, "null": 403, "http://any.example": 403} {
		headers := []string{}
		if origin != "" {
			headers = append(headers, "Origin: "+origin)
		}
		r := rt.ask("GET", "/runtime/whoami", "", headers...)
		if r.status != want || want == 200 && !strings.Contains(string(r.body), `"scope":"code"`) {
			t.Errorf("%q: status %d, %s", origin, r.status, r.body)
		}
	}
	if r := rt.ask("POST", "/pairing/request", "", "Origin: https://any.example"); r.status != http.StatusConflict {
		t.Errorf("pairing: status %d, want 409", r.status)
	}
}

func TestOnlyOurHostIsHeard(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	port := rt.port()
	for request, want := range map[string]int{
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1:" + port:                                                  200,
		"GET /health HTTP/1.1\r\nHost: LOCALHOST:" + port:                                                  200,
		"GET /health HTTP/1.1\r\nHost: [::1]:" + port:                                                      200,
		"GET /health HTTP/1.1\r\nHost: bad.test:" + port:                                                   421,
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1.bad.test:" + port:                                         421,
		"GET /health HTTP/1.1\r\nHost: localhost:80":                                                       421,
		"GET /health HTTP/1.1\r\nHost: localhost":                                                          421,
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1:" + port + ".":                                            421,
		"GET /health HTTP/1.1\r\nHost: 0.0.0.0:" + port:                                                    421,
		"GET /health HTTP/1.1\r\nHost: localhost.:" + port:                                                 421,
		"GET /health HTTP/1.1\r\nHost: ":                                                                   421,
		"GET /health HTTP/1.0":                                                                             421,
		"GET /health HTTP/1.1":                                                                             400,
		"GET /health HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nHost: bad.test":                           400,
		"GET http://bad.test/health HTTP/1.1\r\nHost: 127.0.0.1:" + port:                                   421,
		"GET /health HTTP/1.1\r\nX-Forwarded-Host: 127.0.0.1:" + port + "\r\nHost: bad.test":               421,
		"OPTIONS /health HTTP/1.1\r\nHost: bad.test:" + port:                                               421,
		"OPTIONS * HTTP/1.1\r\nHost: bad.test:" + port:                                                     421,
		"GET /nothing HTTP/1.1\r\nHost: bad.test:" + port:                                                  421,
		"GET /runtime/whoami HTTP/1.1\r\nOrigin: http://localhost\r\nHost: bad.test:" + port:               421,
		"GET /runtime/whoami HTTP/1.1\r\nSec-Fetch-Site: same-origin\r\nHost: rebound.example:" + port:     421,
		"POST /pairing/request HTTP/1.1\r\nOrigin: http://bad.test:" + port + "\r\nHost: bad.test:" + port: 421,
	} {
		r := rt.raw(request + "\r\nConnection: close\r\n\r\n")
		if r.err != nil || r.status != want {
			t.Errorf("%q: status %d, %v; want %d", request, r.status, r.err, want)
		}
		if want == 421 && (r.detail() == "" || r.header.Get("Access-Control-Allow-Origin") != "") {
			t.Errorf("%q: body %s, header %v", request, r.body, r.header)
		}
	}
}

func TestConfiguredHostsAreHeard(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t, withConfig(t, "[server]\nallowed_hosts = [\"tunnel.example\", \"other.example:443\"]\n"))
	for host, want := range map[string]int{
		"tunnel.example": 200, "TUNNEL.example": 200, "tunnel.example:" + rt.port(): 200, "tunnel.example:1": 421,
		"other.example:443": 200, "other.example": 421, "sub.tunnel.example": 421,
	} {
		if r := rt.raw("GET /health HTTP/1.1\r\nConnection: close\r\nHost: " + host + "\r\n\r\n"); r.status != want {
			t.Errorf("Host %s: status %d, want %d", host, r.status, want)
		}
		// A page of such a host is no page of this computer.
		if r := rt.raw("GET /runtime/whoami HTTP/1.1\r\nConnection: close\r\nSec-Fetch-Site: same-origin\r\nHost: " + host + "\r\n\r\n"); r.status == 200 {
			t.Errorf("Host %s: its own page is believed: %s", host, r.body)
		}
	}
}

// apiRequest is one request and the status it must get from a page that has
// the scope actions.
type apiRequest struct {
	method, path, body string
	status             int
}

// apiRequests meets every status that needs no lab.
func apiRequests() []apiRequest {
	const commit = "0123456789012345678901234567890123456789"
	source := func(repo, commit string) string {
		data, _ := json.Marshal(map[string]string{"repo": repo, "commit": commit})
		return string(data)
	}
	list := []apiRequest{
		{"GET", "/health", "", 200}, {"HEAD", "/health", "", 200}, {"GET", "/runtime/info", "", 200},
		{"GET", "/openapi.json", "", 200}, {"GET", "/", "", 200}, {"GET", "/labs/runs", "", 200},
		{"GET", "/nothing", "", 404}, {"GET", "/health/", "", 404}, {"GET", "/labs/runs/none", "", 404},
		{"POST", "/labs/runs/none/stop", "", 404}, {"GET", "/labs/runs/..%2f..%2fetc", "", 404},
		{"POST", "/health", "", 405}, {"DELETE", "/labs/runs", "", 405}, {"GET", "/labs/prepare", "", 405}, {"BREW", "/health", "", 405},
		{"GET", "/labs//runs", "", 422}, {"GET", "/labs/../health", "", 422}, {"GET", "/./health", "", 422},
		{"GET", "/labs/runs/x?offset=-1", "", 422}, {"GET", "/labs/runs/x?offset=abc", "", 422}, {"GET", "/labs/runs/x?offset=1.5", "", 422},
		{"GET", "/labs/runs/x?offset=", "", 422}, {"GET", "/labs/runs/x?offset=%zz", "", 422}, {"GET", "/labs/runs/x?offset=99999999999999999999", "", 422},
		{"GET", "/labs/runs/x?wait=-1", "", 422}, {"GET", "/labs/runs/x?wait=31", "", 422}, {"GET", "/labs/runs/x?wait=NaN", "", 422},
		{"GET", "/labs/runs/x?wait=soon", "", 422}, {"POST", "/labs/runs/x/stop?offset=-1", "", 422},
		{"POST", "/labs/prepare", "", 422}, {"POST", "/labs/prepare", "[]", 422}, {"POST", "/labs/prepare", "null", 422}, {"POST", "/labs/prepare", `"x"`, 422},
		{"POST", "/labs/prepare", `{"repo":1,"commit":"x"}`, 422}, {"POST", "/labs/prepare", `{"repo":"https://a.example/b"}`, 422},
		{"POST", "/labs/prepare", `{"repo":null,"commit":"` + commit + `"}`, 422},
		{"POST", "/labs/prepare", "{", 415}, {"POST", "/labs/prepare", "{} {}", 415}, {"POST", "/labs/prepare", strings.Repeat("[", 100_000), 415},
		{"POST", "/labs/prepare", strings.Repeat(" ", bodyLimit+1), 413},
		{"POST", "/labs/runs", `{"lab_id":"a","commit":"b","action":"c"}`, 409}, {"POST", "/labs/runs", `{"lab_id":"a","commit":"b"}`, 422},
		{"POST", "/labs/runs", `{"lab_id":"a","commit":"b","action":["c"]}`, 422},
		{"POST", "/pairing/request", `{"scope":"everything"}`, 422}, {"POST", "/pairing/request", `{"scope":7}`, 422},
	}
	for _, id := range []string{"--upload-pack=x", "HEAD", "main", commit[1:], commit + "0", strings.ToUpper("abcdef0123") + commit[10:], commit + "\n", "０" + commit[1:], ""} {
		list = append(list, apiRequest{"POST", "/labs/prepare", source("https://a.example/lab", id), 400})
	}
	for _, repo := range []string{"-oX", "ext::sh", "file:///x", "ssh://h/x", "http://h/x", "https:///x", "https://h/a b", "https://h/x#y", "https://h/x?y", "https://u:p@h/x", "https://h/" + strings.Repeat("a", 500), ""} {
		list = append(list, apiRequest{"POST", "/labs/prepare", source(repo, commit), 400})
	}
	return list
}

func TestEveryAnswerHasItsStatusSentenceAndHeaders(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	page := rt.pair("https://course.example", scopeActions)
	doc := asJSON[map[string]any](t, page.want(http.StatusOK, "GET", "/openapi.json", nil))
	for _, c := range apiRequests() {
		headers := []string{"Origin: " + page.origin, "Authorization: Bearer " + page.token, "Content-Type: application/json; charset=utf-8"}
		r := rt.ask(c.method, c.path, c.body, headers...)
		name := fmt.Sprintf("%s %s %.60q", c.method, c.path, c.body)
		if c.method == "HEAD" && r.err == io.ErrUnexpectedEOF {
			r.err = nil // its length is that of the body that a GET would have
		}
		if r.err != nil || r.status != c.status {
			t.Errorf("%s: status %d, %v, %.200s; want %d", name, r.status, r.err, r.body, c.status)
			continue
		}
		checkHeaders(t, name, r, page.origin)
		if c.status >= 400 && (strings.TrimSpace(r.detail()) == "" || r.header.Get("Content-Type") != "application/json") {
			t.Errorf("%s: no sentence in %s", name, r.body)
		}
		if allow := r.header.Get("Allow"); c.status == 405 && !strings.Contains(allow, "OPTIONS") {
			t.Errorf("%s: Allow: %q", name, allow)
		}
		if path, _, _ := strings.Cut(c.path, "?"); !describes(doc, c.method, path, c.status) {
			t.Errorf("%s: status %d is not described", name, c.status)
		}
	}
	for name, r := range map[string]reply{
		"body that is not called JSON": rt.ask("POST", "/labs/prepare", "{}", "Origin: http://localhost", "Content-Type: text/plain"),
		"body without a type":          rt.ask("POST", "/labs/prepare", "{}", "Origin: http://localhost"),
	} {
		if r.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: status %d, want 415", name, r.status)
		}
	}
}

// checkHeaders looks at what every answer to a page must carry.
func checkHeaders(t *testing.T, name string, r reply, origin string) {
	t.Helper()
	for header, want := range map[string]string{
		"Access-Control-Allow-Origin": origin, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Access-Control-Allow-Credentials": "",
	} {
		if got := r.header.Get(header); got != want {
			t.Errorf("%s: %s: %q, want %q", name, header, got, want)
		}
	}
	if !slices.Contains(r.header.Values("Vary"), "Origin") {
		t.Errorf("%s: Vary: %q", name, r.header.Values("Vary"))
	}
}

// describes reports whether the description knows the status as an answer of
// the operation; what is no operation need not be described.
func describes(doc map[string]any, method, path string, status int) bool {
	paths, _ := doc["paths"].(map[string]any)
	item, _ := paths[path].(map[string]any)
	op, ok := item[strings.ToLower(method)].(map[string]any)
	if !ok {
		return true
	}
	answers, _ := op["responses"].(map[string]any)
	return answers[fmt.Sprint(status)] != nil
}

func TestPreflightsAreAnsweredForEveryRoute(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	for _, route := range routes(&server{}) {
		path := pathParam.ReplaceAllString(strings.TrimSuffix(route.pattern, "{$}"), "x")
		r := rt.ask("OPTIONS", path, "", "Origin: https://any.example", "Access-Control-Request-Method: "+route.method,
			"Access-Control-Request-Headers: authorization,content-type")
		if route.scope == scopeOwn {
			if r.status != http.StatusForbidden || len(corsHeaders(r)) > 0 {
				t.Errorf("%s %s: another page may ask: status %d, %v", route.method, path, r.status, r.header)
			}
			continue
		}
		checkHeaders(t, path, r, "https://any.example")
		if r.status != http.StatusNoContent || !strings.Contains(r.header.Get("Access-Control-Allow-Methods"), route.method) ||
			r.header.Get("Access-Control-Allow-Headers") != "authorization,content-type" || r.header.Get("Access-Control-Max-Age") == "" {
			t.Errorf("%s %s: status %d, %v", route.method, path, r.status, r.header)
		}
	}
	if r := rt.ask("OPTIONS", "/of/a/later/version", "", "Origin: https://any.example", "Access-Control-Request-Method: POST"); r.status != http.StatusNoContent {
		t.Errorf("a path that is not there: status %d, so that a page cannot read its 404", r.status)
	}
	const asks = "Access-Control-Request-Private-Network: true"
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"asked for":         {[]string{"Origin: https://any.example", asks}, "true"},
		"not asked for":     {[]string{"Origin: https://any.example"}, ""},
		"asked with false":  {[]string{"Origin: https://any.example", "Access-Control-Request-Private-Network: false"}, ""},
		"asked from null":   {[]string{"Origin: null", asks}, ""},
		"asked from nobody": {[]string{asks}, ""},
	} {
		r := rt.ask("OPTIONS", "/labs/prepare", "", append(c.headers, "Access-Control-Request-Method: POST")...)
		if got := r.header.Get("Access-Control-Allow-Private-Network"); got != c.want || r.status != http.StatusNoContent {
			t.Errorf("private network %s: status %d, %q, want %q", name, r.status, got, c.want)
		}
	}
	for _, origin := range []string{"null", "file://", "chrome-extension://x", ""} {
		if r := rt.ask("GET", "/health", "", "Origin: "+origin); r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("an answer may be read by %q", origin)
		}
	}
}

func TestOpenAPIIsTrueToWhatIsServed(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	page := rt.pair("https://course.example", scopeCode)
	doc := asJSON[map[string]any](t, page.want(http.StatusOK, "GET", "/openapi.json", nil))
	if v, _ := doc["openapi"].(string); !strings.HasPrefix(v, "3.1.") {
		t.Errorf("openapi = %v", doc["openapi"])
	}
	paths := doc["paths"].(map[string]any)
	operations := 0
	for _, item := range paths {
		operations += len(item.(map[string]any))
	}
	table := routes(&server{})
	if operations != len(table) {
		t.Errorf("%d operations are described, and %d routes served", operations, len(table))
	}
	for _, rt := range table {
		path := strings.ReplaceAll(strings.TrimSuffix(rt.pattern, "{$}"), "...}", "}")
		item, _ := paths[path].(map[string]any)
		op, ok := item[strings.ToLower(rt.method)].(map[string]any)
		if !ok {
			t.Errorf("%s %s is not described", rt.method, rt.pattern)
			continue
		}
		if _, secured := op["security"]; secured != (rt.scope != scopeOpen) {
			t.Errorf("%s %s: scope %s, security %v", rt.method, rt.pattern, rt.scope, op["security"])
		}
	}
	for _, path := range []string{"/health", "/runtime/info", "/runtime/whoami", "/labs/runs"} {
		answer := asJSON[any](t, page.want(http.StatusOK, "GET", path, nil))
		checkSchema(t, path, answerSchemaOf(t, doc, path), answer)
	}
}

func answerSchemaOf(t *testing.T, doc map[string]any, path string) map[string]any {
	t.Helper()
	var v any = doc
	for _, key := range []string{"paths", path, "get", "responses", "200", "content", "application/json", "schema"} {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	schema, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("%s has no schema", path)
	}
	return schema
}

// checkSchema holds value against the kinds of schema that we write, and
// wants every member described.
func checkSchema(t *testing.T, where string, schema map[string]any, value any) {
	t.Helper()
	var kind string
	switch v := value.(type) {
	case map[string]any:
		kind = "object"
		properties, _ := schema["properties"].(map[string]any)
		for name, member := range v {
			of, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("%s: the member %q is not described", where, name)
				continue
			}
			checkSchema(t, where+"."+name, of, member)
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				t.Errorf("%s: the member %v is missing", where, name)
			}
		}
	case []any:
		kind = "array"
		items, _ := schema["items"].(map[string]any)
		for _, item := range v {
			checkSchema(t, where+"[]", items, item)
		}
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
	case nil:
		kind = "null"
	}
	allowed := fmt.Sprint(schema["type"])
	if !strings.Contains(allowed, kind) && !(kind == "number" && strings.Contains(allowed, "integer")) {
		t.Errorf("%s: is a %s, described as %s", where, kind, allowed)
	}
}

func TestOwnPageMayNotBeFramedOrFed(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	types := map[string]string{"/": "text/html; charset=utf-8"}
	files, err := pageFiles.ReadDir("page")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		types["/page/"+file.Name()] = pageTypes[filepath.Ext(file.Name())]
	}
	for path, want := range types {
		r := rt.ask("GET", path, "")
		if got := r.header.Get("Content-Type"); r.status != http.StatusOK || got != want || want == "" || len(r.body) == 0 {
			t.Errorf("%s: status %d, Content-Type %q, want %q", path, r.status, got, want)
		}
		if strings.Contains(string(r.body), "<script>") || strings.Contains(string(r.body), "style=") || strings.Contains(string(r.body), "innerHTML") {
			t.Errorf("%s holds what its policy forbids", path)
		}
		checkPageHeaders(t, path, r)
	}
	for _, path := range []string{"/page/", "/page/none.js", "/page/..%2fmain.go", "/page/%2e%2e", "/page/main.js/x"} {
		if r := rt.ask("GET", path, ""); r.status != http.StatusNotFound && r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: status %d", path, r.status)
		}
	}
}

func checkPageHeaders(t *testing.T, path string, r reply) {
	t.Helper()
	for header, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := r.header.Get(header); got != want {
			t.Errorf("%s: %s: %q, want %q", path, header, got, want)
		}
	}
	policy := r.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: policy %q, want %s", path, policy, want)
		}
	}
}
