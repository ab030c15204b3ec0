package main

// The OpenAPI 3.1 description of what is served, made from the table of
// routes and the types of bodies and answers.

import (
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// runFull and runsFull are answers about runs with the members that are
// written apart.
type runFull struct {
	runAnswer
	Output     string `json:"output"`
	NextOffset int    `json:"next_offset"`
	Truncated  bool   `json:"truncated"`
}

type runsFull struct {
	Runs []runFull `json:"runs"`
}

var pathParam = regexp.MustCompile(`\{([a-z_]+)(\.\.\.)?\}`)

func openAPI(version string, table []route) map[string]any {
	paths := make(map[string]any)
	for _, rt := range table {
		name := strings.ReplaceAll(strings.TrimSuffix(rt.pattern, "{$}"), "...}", "}")
		item, ok := paths[name].(map[string]any)
		if !ok {
			item = make(map[string]any)
			paths[name] = item
		}
		item[strings.ToLower(rt.method)] = operation(rt)
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title":       "agent-runtime",
			"version":     version,
			"description": "Lets a course page run approved things on the learner's own computer.",
		},
		"paths": paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{
				"token":   map[string]any{"type": "http", "scheme": "bearer", "description": "The token from pairing, sent from the paired origin, or a local client's token, sent without an Origin."},
				"ownPage": map[string]any{"type": "apiKey", "in": "header", "name": "Origin", "description": "The address that the request goes to, as a browser sends it for the runtime's own page; or none, with Sec-Fetch-Site: same-origin."},
			},
			"schemas": map[string]any{"Problem": answerSchema(reflect.TypeFor[problemBody]())},
		},
	}
}

// problemBody is what every error answer is.
type problemBody struct {
	Detail string `json:"detail"`
}

func operation(rt route) map[string]any {
	op := map[string]any{
		"summary":   rt.doc.summary,
		"responses": responses(rt),
	}
	switch rt.scope {
	case scopeOpen:
	case scopeOwn:
		op["security"] = []any{map[string]any{"ownPage": []string{}}}
		op["x-scope"] = rt.scope
	default:
		op["security"] = []any{map[string]any{"token": []string{}}}
		op["x-scope"] = rt.scope
	}
	var params []any
	for _, m := range pathParam.FindAllStringSubmatch(rt.pattern, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, q := range rt.doc.query {
		params = append(params, map[string]any{"name": q.name, "in": "query", "description": q.text, "schema": map[string]any{"type": q.kind}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.doc.body != nil {
		op["requestBody"] = map[string]any{
			"required": !rt.doc.optional,
			"content":  content("application/json", bodySchema(reflect.TypeOf(rt.doc.body))),
		}
	}
	return op
}

func content(mediaType string, schema any) map[string]any {
	return map[string]any{mediaType: map[string]any{"schema": schema}}
}

func responses(rt route) map[string]any {
	statuses := slices.Clone(rt.doc.problems)
	switch rt.scope {
	case scopeOpen:
	case scopeOwn:
		statuses = append(statuses, http.StatusForbidden)
	default:
		statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden)
	}
	if rt.doc.body != nil {
		statuses = append(statuses, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	if rt.doc.query != nil {
		statuses = append(statuses, http.StatusUnprocessableEntity)
	}
	problem := content("application/json", map[string]any{"$ref": "#/components/schemas/Problem"})
	all := map[string]any{
		"default": map[string]any{"description": "What any request may meet, such as a Host that is not the runtime's", "content": problem},
	}
	for _, status := range statuses {
		all[strconv.Itoa(status)] = map[string]any{"description": http.StatusText(status), "content": problem}
	}
	status := rt.doc.status
	if status == 0 {
		status = http.StatusOK
	}
	ok := map[string]any{"description": http.StatusText(status)}
	switch {
	case rt.doc.media != "":
		ok["content"] = content(rt.doc.media, map[string]any{"type": "string"})
	case rt.doc.answer != nil:
		ok["content"] = content("application/json", answerSchema(reflect.TypeOf(rt.doc.answer)))
	}
	all[strconv.Itoa(status)] = ok
	return all
}

// bodySchema is the JSON schema of a body: what its type's fields tagged
// schema:"required" say must be there, and the rest may.
func bodySchema(t reflect.Type) map[string]any {
	return schemaOf(t, func(field reflect.StructField) bool { return field.Tag.Get("schema") == "required" })
}

// answerSchema is the JSON schema of an answer, which always has every member
// but those that encoding/json leaves out.
func answerSchema(t reflect.Type) map[string]any {
	return schemaOf(t, func(field reflect.StructField) bool {
		return !strings.Contains(field.Tag.Get("json"), ",omit")
	})
}

// schemaOf is the JSON schema of a type as encoding/json writes it.
func schemaOf(t reflect.Type, required func(reflect.StructField) bool) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		schema := maps.Clone(schemaOf(t.Elem(), required))
		schema["type"] = []any{schema["type"], "null"}
		return schema
	case reflect.Struct:
		return structSchema(t, required)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), required)}
	case reflect.Map, reflect.Interface:
		return map[string]any{"type": "object"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "string"}
}

func structSchema(t reflect.Type, required func(reflect.StructField) bool) map[string]any {
	properties := make(map[string]any)
	names := []string{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		of := field.Type
		if required(field) {
			names = append(names, name)
		}
		if field.Tag.Get("schema") == "required" && of.Kind() == reflect.Pointer {
			of = of.Elem() // a pointer only to tell that it is missing
		}
		properties[name] = schemaOf(of, required)
	}
	return map[string]any{"type": "object", "properties": properties, "required": names}
}
