package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNewLabIsValidWhateverItsFolderIsCalled(t *testing.T) {
	t.Parallel()
	env := programEnv(t.TempDir())
	for folder, id := range map[string]string{
		"hello-lab": "hello-lab", "Hello Lab": "Hello-Lab", ".hidden": "hidden", "-x-": "x", "日本語": "my-lab", "a\nb": "a-b", "\"q\\": "q", "\xff1": "1",
		"x; rm -rf ~": "x-rm--rf", "...": "my-lab", strings.Repeat("ab", 100): strings.Repeat("ab", 32), strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63),
	} {
		dir := filepath.Join(t.TempDir(), "labs", folder)
		made := sayHere(t, env, "lab", "init", dir)
		if made.code != 0 || made.stderr != "" || !strings.Contains(made.stdout, "lab.toml\n") || !strings.Contains(made.stdout, schemaName+"\n") {
			t.Errorf("lab init %q: %+v", folder, made)
		}
		checked := sayHere(t, env, "lab", "check", dir)
		if checked.code != 0 || !strings.Contains(checked.stdout, "valid, 1 action: greet") {
			t.Errorf("lab check of a new lab %q: %+v", folder, checked)
		}
		m, _, err := readLocalManifest(dir)
		if err != nil || m == nil || m.id != id || m.title != id {
			t.Errorf("the lab in %q is %+v, %v; want the id %q", folder, m, err, id)
		}
	}
	if here := say(t, env, "lab", "init"); here.code != 0 || !strings.HasPrefix(here.stdout, "Wrote lab.toml\n") {
		t.Errorf("lab init without a folder: %+v", here)
	}
}

func TestActionOfANewLabRuns(t *testing.T) {
	t.Parallel()
	env := programEnv(filepath.Join(t.TempDir(), "data"))
	dir := filepath.Join(t.TempDir(), "first")
	if made := say(t, env, "lab", "init", dir); made.code != 0 || !strings.Contains(made.stdout, "agent-runtime lab run "+dir+" greet") {
		t.Fatalf("lab init: %+v", made)
	}
	if ran := say(t, env, "lab", "run", dir, "greet"); ran.code != 0 || !strings.Contains(ran.stdout, "\nHello!\n[done") {
		t.Errorf("lab run of the new lab: %+v", ran)
	}
}

// The command that is offered took such a folder for a flag.
func TestLabInitOffersACommandForAFolderLikeAFlag(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "lab", "init", "--", "-lab")
	cmd.Env, cmd.Dir = programEnv(t.TempDir()), t.TempDir()
	if said, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(said), ": agent-runtime lab run ./-lab greet\n") {
		t.Errorf("lab init -- -lab: %v\n%s", err, said)
	}
}

func TestLabInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	env := programEnv(t.TempDir())
	target := filepath.Join(t.TempDir(), "elsewhere")
	for name, prepare := range map[string]func(path string) error{
		"a file":           func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a link":           func(path string) error { return os.Symlink(target, path) },
		"a folder":         func(path string) error { return os.Mkdir(path, 0o700) },
		"an empty file":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"what another did": func(path string) error { _, err := startLab(filepath.Dir(path)); return err },
	} {
		dir := t.TempDir()
		if err := prepare(filepath.Join(dir, manifestName)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(filepath.Join(dir, manifestName))
		got := sayHere(t, env, "lab", "init", dir)
		after, _ := os.ReadFile(filepath.Join(dir, manifestName))
		if got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, "already") || !bytes.Equal(before, after) {
			t.Errorf("lab init over %s: %+v", name, got)
		}
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("lab init wrote through a link")
	}
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, schemaName), "{}")
	got := sayHere(t, env, "lab", "init", dir)
	if got.code != 0 || strings.Contains(got.stdout, schemaName) || readDoc(t, filepath.Join(dir, schemaName)) != "{}" {
		t.Errorf("lab init beside a schema: %+v", got)
	}
	writeTestFile(t, filepath.Join(dir, "file"), "")
	if got := sayHere(t, env, "lab", "init", filepath.Join(dir, "file")); got.code != exitFailed || !strings.Contains(got.stderr, "cannot be made") {
		t.Errorf("lab init in a file: %+v", got)
	}
}

func TestExampleInANewLabIsValidToo(t *testing.T) {
	t.Parallel()
	head, example, found := strings.Cut(fmt.Sprintf(labTemplate, "x", "x"), "# Another one:\n#\n")
	if _, findings := parseManifest([]byte(head + strings.ReplaceAll(example, "# ", ""))); !found || len(findings) > 0 {
		t.Errorf("the example that is commented out: %v", findings)
	}
}

// schemaJudge reads a schema and a list of documents, and writes for each why
// the schema refuses it; nothing when it does not. The end of a pattern is the
// end of the text in JSON Schema, where Python's $ would also stand before a
// last line end.
const schemaJudge = `
import json, sys, tomllib
import jsonschema
schema, documents = json.load(sys.stdin)
jsonschema.Draft7Validator.check_schema(schema)
judge = jsonschema.Draft7Validator(json.loads(json.dumps(schema).replace('$"', '\\\\Z"')))
def verdict(text):
    try:
        document = tomllib.loads(text)
    except ValueError as e:
        return "not TOML: " + str(e)
    return "\n".join(e.message[:200] for e in judge.iter_errors(document))
json.dump([verdict(d) for d in documents], sys.stdout)
`

// schemaVerdicts has a JSON Schema validator judge documents by lab.schema.json.
func schemaVerdicts(t *testing.T, documents []string) []string {
	t.Helper()
	const python = "/usr/bin/python3"
	if err := exec.CommandContext(t.Context(), python, "-c", "import tomllib, jsonschema").Run(); err != nil {
		t.Skip("this test needs Python 3.11 and a validator: sudo apt-get install python3-jsonschema")
	}
	input, err := json.Marshal([]any{json.RawMessage(labSchema), documents})
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, "-c", schemaJudge)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &errs
	out, err := cmd.Output()
	var verdicts []string
	if err == nil {
		err = json.Unmarshal(out, &verdicts)
	}
	if err != nil || len(verdicts) != len(documents) {
		t.Fatalf("the validator: %v\n%s", err, &errs)
	}
	return verdicts
}

// manyManifests are manifests of all kinds, good and bad: those of the tests
// of the parser, and every key with values of every kind.
func manyManifests() []string {
	all := []string{helloManifest, fmt.Sprintf(labTemplate, "x", "x"), "", helloMany(50), helloMany(51), "\uFEFF" + helloManifest}
	for _, rule := range manifestRules() {
		all = append(all, helloWith(rule.key, rule.line))
	}
	for key := range actionKeys() {
		all = append(all, helloNamed(key))
	}
	for _, other := range otherActions() {
		all = append(all, other.text)
	}
	values := []string{"1", "0", "-1", "1.5", "1.0", "60.0", "inf", "nan", "true", `"x"`, `""`, `" "`, `"\n"`, `"x\n"`, `"\u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000"`,
		`"\uFEFF"`, `"\u200B"`, `"\u001C"`, `"\u180E"`, `"\u0000"`, "[]", "{}", "[[]]", "[[[]]]", `["x"]`, `[["x"]]`, `[["x"], []]`, `[["x", ""]]`, `[["\u0000"]]`, `[["x\n"]]`, "[[1]]",
		"[{}]", "{x = 1}", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", `'''` + "\n\n" + `'''`}
	for _, key := range []string{"schema", "id", "title", "label", "description", "steps", "timeout", "[actions.greet]"} {
		for _, value := range values {
			all = append(all, helloWith(key, strings.Trim(strings.Replace(key, ".greet", "", 1), "[]")+" = "+value))
		}
	}
	return all
}

func TestSchemaForEditorsAcceptsWhatTheParserAccepts(t *testing.T) {
	t.Parallel()
	documents := manyManifests()
	verdicts := schemaVerdicts(t, documents)
	count := make(map[bool]int)
	differ := make(map[string]bool)
	for i, text := range documents {
		_, findings := parseManifest([]byte(text))
		valid := len(findings) == 0
		count[valid]++
		if valid != (verdicts[i] == "") {
			differ[text] = true
			if !slices.Contains(beyondTheSchema(), text) {
				t.Errorf("the parser says %v and the schema says %q of\n%.300s", findings, verdicts[i], text)
			}
		}
	}
	if count[true] < 20 || count[false] < 200 || len(differ) != len(beyondTheSchema()) {
		t.Errorf("%v manifests valid, and the two differ about %q", count, slices.Sorted(maps.Keys(differ)))
	}
}

// beyondTheSchema are the manifests about which the two differ, as
// docs/lab-toml.md says: in JSON a number without a fraction is an integer,
// however it is written.
func beyondTheSchema() []string {
	return []string{
		helloWith("schema", "schema = 1.0"),
		helloWith("timeout", "timeout = 1.0"),
		helloWith("timeout", "timeout = 60.0"),
	}
}

func TestSchemaIsTheOneOfTheDocuments(t *testing.T) {
	t.Parallel()
	got := sayHere(t, programEnv(t.TempDir()), "lab", "schema")
	if got.code != 0 || got.stdout != readDoc(t, "docs/"+schemaName) {
		t.Errorf("lab schema: %+v", got)
	}
	if first, _, _ := strings.Cut(labTemplate, "\n"); !strings.Contains(readDoc(t, "docs/lab-toml.md"), "\n"+first+"\n") {
		t.Errorf("docs/lab-toml.md does not name the line %q", first)
	}
}
