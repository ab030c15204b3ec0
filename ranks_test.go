package main

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rankOrder lists every file from the lowest rank to the highest. A file may
// use only names declared in files that stand before it, so no two files need
// each other. Files of one system (name_linux.go) stand under their common name.
var rankOrder = []struct {
	rank   string
	forbid []string // imports that the rank must do without
	files  []string
}{
	{"tools", []string{"net/http"}, []string{
		"kernel32", "problem", "disk", "flight", "recent", "text", "shellquote", "window", "atomicfile", "filelock", "privatedir", "sockdir",
		"job", "consolebreak", "outputpipe", "proc", "tool", "gitstat", "wait", "wordtail"}},
	{"formats", []string{"net/http", "os/exec"}, []string{
		"jsonrpc", "modeltext", "scope", "serviceunit", "origin", "tomltext", "tomltree", "manifest", "config", "certificate",
		"gitobject", "gitsource", "gittree", "giterror", "gitredirect",
		"zmtp", "jupyter", "celloutput",
		"seccomp", "bwrap", "sandboxpath"}},
	{"state", []string{"net/http", "os/exec"}, []string{"state", "stateimport", "statestore"}},
	{"doers", []string{"net/http"}, []string{
		"certfile", "keychain",
		"cooldown", "questions", "terminal", "pairing", "lastuse", "control",
		"distro", "venv", "childenv", "lookpath", "service", "pythons", "env", "envbuild", "envspare",
		"gitconfig", "gitcheck", "gitcommand", "gitstore", "gitread", "gitfetch",
		"steps", "runstore", "runs", "labquestion", "checkout", "labspare", "labs", "labinit", "labstart",
		"cell", "kernelinterrupt", "kernelclient", "kernelprocess", "kernelpackages", "kernelstart", "notebook", "kernel", "envuse",
		"learner", "sandboxprobe", "sandboxfault", "sandboxtree", "workspace", "sandboxpolicy", "sandboxqueue", "sandboxevents", "sandboxrecord",
		"sandboxexec", "sandboxoutput", "sandboxwatch", "sandboxview", "sandboxrun", "sandboxisolate", "sandbox", "sandboxcreate", "sandboxwork", "reaper",
		"memory", "sizes", "checkup"}},
	{"http", []string{"os/exec"}, []string{
		"peerdiag", "peer", "calls", "cellreaders", "server", "principals", "answers", "http_open", "http_page", "http_pairing", "http_labs",
		"cellwriter", "http_kernel", "http_sandbox", "http_manage", "http_takeback"}},
	{"table", []string{"os/exec"}, []string{"route", "openapi", "routes"}},
	{"command line", nil, []string{
		"listen", "portcheck", "command", "cli",
		"completionbash", "completionzsh", "completionfish", "completion", "manpage", "runtime",
		"mcpclient", "mcpprogress", "mcptool", "mcpimage", "mcplabs", "mcppython", "mcpsandbox", "mcp",
		"cli_serve", "cli_service", "cli_questions", "cli_access", "cli_labinit", "cli_lab", "cli_env", "cli_learner", "cli_tls", "cli_mcp", "doctor", "main"}},
}

// noImports lets the type checker go on without the packages imported: only
// names of this package matter here.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

func TestFilesUseOnlyFilesOfLowerRank(t *testing.T) {
	t.Parallel()
	position := make(map[string]int)
	forbidden := make(map[string][]string)
	for _, rank := range rankOrder {
		for _, file := range rank.files {
			position[file] = len(position)
			forbidden[file] = rank.forbid
		}
	}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		checkRanks(t, goos, position, forbidden)
	}
}

func checkRanks(t *testing.T, goos string, position map[string]int, forbidden map[string][]string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || !builtOn(t, name, goos) {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		noun := fileNoun(name)
		if _, ok := position[noun]; !ok {
			t.Errorf("%s has no rank: add %q to rankOrder", name, noun)
		}
		for _, imported := range file.Imports {
			path, _ := strconv.Unquote(imported.Path.Value)
			if slices.Contains(forbidden[noun], path) {
				t.Errorf("%s imports %s, which its rank must do without", name, path)
			}
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	cfg := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := cfg.Check("main", fset, files, info)
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		user := fileNoun(fset.Position(ident.Pos()).Filename)
		owner := fileNoun(fset.Position(object.Pos()).Filename)
		if user != owner && position[owner] > position[user] {
			t.Errorf("%s: %s uses %s of %s, which ranks above it", fset.Position(ident.Pos()), user, ident.Name, owner)
		}
	}
}

// fileNoun is what a file is about: its name without the system it is for.
func fileNoun(name string) string {
	noun := strings.TrimSuffix(filepath.Base(name), ".go")
	for _, system := range []string{"_linux", "_darwin", "_windows", "_unix", "_other"} {
		noun = strings.TrimSuffix(noun, system)
	}
	return noun
}

func builtOn(t *testing.T, name, goos string) bool {
	t.Helper()
	ctx := build.Default
	ctx.GOOS = goos
	match, err := ctx.MatchFile(".", name)
	if err != nil {
		t.Fatal(err)
	}
	return match
}

func TestArchitectureNamesEveryFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rank := range rankOrder {
		for _, file := range rank.files {
			if !strings.Contains(string(page), "`"+file+"`") {
				t.Errorf("docs/architecture.md does not name the file %s", file)
			}
		}
	}
}
