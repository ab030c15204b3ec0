package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestWindowsProgramsAreFoundByTheirExtension(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here := filepath.Join(dir, "first")
	for _, folder := range []string{here, filepath.Join(dir, "second"), filepath.Join(here, "folder.exe")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"first/tool", "first/script.py", "second/tool.exe", "second/tool.cmd", "second/own.xyz"} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := "pAtH=.;;first;\\;" + here + ";" + filepath.Join(dir, "second")
	for _, c := range []struct {
		name, extensions, want string
	}{
		{"tool", ".COM;.EXE;.BAT;.CMD", "tool.exe"},
		{"tool", ".CMD;.EXE", "tool.cmd"},
		{"tool", "", "tool.exe"},
		{"TOOL.EXE", "", "TOOL.EXE"},
		{"own", ";.XYZ", "own.xyz"},
		{"own", ".EXE", ""},
		{"script.py", "", ""},
		{"folder", "", ""},
		{`..\second\tool`, "", ""},
	} {
		got, err := lookPath(c.name, []string{path, "PathExt=" + c.extensions})
		want := ""
		if c.want != "" {
			want = filepath.Join(dir, "second", c.want)
		}
		if got != want || (want == "") != errors.Is(err, exec.ErrNotFound) {
			t.Errorf("lookPath(%q) with %q = %q, %v; want %q", c.name, c.extensions, got, err, want)
		}
	}
}

// The store's stub answers to the name of Python and only fails.
func TestWindowsEveryNameOfPythonIsTried(t *testing.T) {
	t.Parallel()
	stub, real := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(stub, "python.exe"), filepath.Join(stub, "python3.exe"), filepath.Join(real, "py.exe")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := defaultPythons([]string{"PATH=" + stub + ";" + real})
	want := [][]string{{filepath.Join(real, "py.exe"), "-3"}, {filepath.Join(stub, "python.exe")}, {filepath.Join(stub, "python3.exe")}}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("defaultPythons = %q, want %q", got, want)
	}
}

func TestWindowsVariablesHaveNoCase(t *testing.T) {
	t.Parallel()
	env := cleanEnvironment([]string{"Path=C:\\a", "PythonPath=x", "agent_runtime_token=secret", "=C:=C:\\x", "Other=1"})
	if _, ok := variable(env, "PYTHONPATH"); ok {
		t.Error("PythonPath was kept")
	}
	if _, ok := variable(env, "AGENT_RUNTIME_TOKEN"); ok {
		t.Error("agent_runtime_token was kept")
	}
	env = setVariable(env, "PATH", "C:\\b")
	if got := slices.DeleteFunc(slices.Clone(env), func(e string) bool { return e != "PATH=C:\\b" && e != "Path=C:\\a" }); len(got) != 1 {
		t.Errorf("PATH is there as %q", got)
	}
}
