package main

// What a tool of the MCP server is: its arguments, told to agents as a JSON
// schema and checked by the same words, and what it gives back.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// paramKind is what an argument takes.
type paramKind int

const (
	paramName   paramKind = iota // a string that is not empty
	paramText                    // any string
	paramWhole                   // a whole number
	paramNumber                  // any number
	paramList                    // a list of strings
)

// toolParam is an argument of a tool.
type toolParam struct {
	name     string
	kind     paramKind
	required bool
	text     string
	low      float64 // of a number, as is the next
	high     float64
	missing  float64 // what an absent number counts as
}

// toolHints tell an agent what a call may do.
type toolHints struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// tool is one thing that an agent can have done.
type tool struct {
	name   string
	title  string
	text   string
	params []toolParam
	hints  toolHints
	// run does it. say tells what is going on meanwhile, in a sentence.
	run func(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error)
}

// toolResult is what a call gave: text, and pictures that the text names.
type toolResult struct {
	text   string
	images []toolImage
}

// toolImage is a picture as base64.
type toolImage struct{ mimeType, data string }

// toolArgs are the arguments of a call, checked: string, float64 or []string.
type toolArgs map[string]any

// str is an argument that is a string; "" when it is absent.
func (a toolArgs) str(name string) string {
	s, _ := a[name].(string)
	return s
}

// has reports whether an argument is there.
func (a toolArgs) has(name string) bool { return a[name] != nil }

// number is an argument that is a number, which is always there.
func (a toolArgs) number(name string) float64 {
	n, _ := a[name].(float64)
	return n
}

func (a toolArgs) list(name string) []string {
	l, _ := a[name].([]string)
	return l
}

// args checks the arguments of a call. null counts as absent.
func (t tool) args(given map[string]json.RawMessage) (toolArgs, error) {
	names := make([]string, len(t.params))
	for i, p := range t.params {
		names[i] = p.name
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return nil, problemf(kindInvalid, "%s has no argument %q; it takes %s.", t.name, name, inWords(names))
		}
	}
	a := make(toolArgs)
	for _, p := range t.params {
		raw := given[p.name]
		if raw == nil || string(raw) == "null" {
			if p.required {
				return nil, problemf(kindInvalid, "%s needs the argument %q: %s.", t.name, p.name, p.want())
			}
			if p.kind == paramWhole || p.kind == paramNumber {
				a[p.name] = p.missing
			}
			continue
		}
		value := p.value(raw)
		if value == nil {
			return nil, problemf(kindInvalid, "The argument %q of %s must be %s.", p.name, t.name, p.want())
		}
		a[p.name] = value
	}
	return a, nil
}

// inWords lists names in a sentence.
func inWords(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// value reads an argument; nil when it is not what the argument takes.
func (p toolParam) value(raw json.RawMessage) any {
	switch p.kind {
	case paramName, paramText:
		var s string
		if json.Unmarshal(raw, &s) == nil && (s != "" || p.kind == paramText) {
			return s
		}
	case paramWhole, paramNumber:
		var n float64
		if json.Unmarshal(raw, &n) == nil && p.low <= n && n <= p.high && (p.kind == paramNumber || n == math.Trunc(n)) {
			return n
		}
	case paramList:
		var list []*string
		if json.Unmarshal(raw, &list) != nil || slices.Contains(list, nil) {
			return nil
		}
		words := []string{}
		for _, word := range list {
			words = append(words, *word)
		}
		return words
	}
	return nil
}

// want is what the argument takes, in words.
func (p toolParam) want() string {
	switch p.kind {
	case paramName:
		return "a string that is not empty"
	case paramText:
		return "a string"
	case paramList:
		return "a list of strings"
	case paramWhole:
		return fmt.Sprintf("a whole number from %.0f to %.0f", p.low, p.high)
	}
	return fmt.Sprintf("a number from %g to %g", p.low, p.high)
}

// schema is the JSON schema of the argument.
func (p toolParam) schema() map[string]any {
	s := map[string]any{"description": p.text}
	switch p.kind {
	case paramName:
		s["type"], s["minLength"] = "string", 1
	case paramText:
		s["type"] = "string"
	case paramList:
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
	case paramWhole:
		s["type"] = "integer"
	case paramNumber:
		s["type"] = "number"
	}
	if p.kind == paramWhole || p.kind == paramNumber {
		s["minimum"], s["maximum"] = p.low, p.high
		if !p.required {
			s["default"] = p.missing
		}
	}
	return s
}

// describe is the tool as an agent is told of it.
func (t tool) describe() map[string]any {
	properties, required := make(map[string]any), []string{}
	for _, p := range t.params {
		properties[p.name] = p.schema()
		if p.required {
			required = append(required, p.name)
		}
	}
	return map[string]any{
		"name": t.name, "title": t.title, "description": t.text, "annotations": t.hints,
		"inputSchema": map[string]any{
			"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		},
	}
}

// report is lines of a result before the text that it is about.
type report struct{ strings.Builder }

func (r *report) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// body ends the report with a text, in the room that is left. more are lines
// that come after it, and rest says how to read what was left out.
func (r *report) body(name string, text modelText, more string, rest func(from int) string) toolResult {
	head := cutText(r.String(), modelTextLimit/4)
	more = cutText(more, modelTextLimit/4)
	if name != "" {
		head += name + ":\n"
	}
	shown := text.within(modelTextLimit-len(head)-len(more)-2, rest)
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return toolResult{text: head + shown + more}
}

// toolContents is what a call gave, as the protocol has it.
type toolContents struct {
	Content []toolContent `json:"content"`
	IsError bool          `json:"isError"`
}

type toolContent struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Data     string  `json:"data,omitempty"`
	MIMEType string  `json:"mimeType,omitempty"`
}

func (r toolResult) contents() toolContents {
	all := toolContents{Content: []toolContent{{Type: "text", Text: &r.text}}}
	for _, image := range r.images {
		all.Content = append(all.Content, toolContent{Type: "image", Data: image.data, MIMEType: image.mimeType})
	}
	return all
}

// toolFailure tells why a tool did nothing.
func toolFailure(err error) toolContents {
	text := err.Error()
	if p, ok := errors.AsType[*problem](err); ok {
		text = p.detail
	}
	contents := toolResult{text: outputText(text, 0).within(modelTextLimit, func(int) string { return "it is not kept" })}.contents()
	contents.IsError = true
	return contents
}
