package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// curlLab prints a line at a time until it is stopped.
const curlLab = `schema = 1
id = "hello-lab"
title = "Hello"

[actions.greet]
label = "Say hello"
steps = [["python", "-c", "import sys, time\nwhile True: sys.stdout.write('hello\\n'); time.sleep(0.1)"]]
`

// readmeScript is the sh code of a section of README.md.
func readmeScript(t *testing.T, section string) string {
	t.Helper()
	_, text, found := strings.Cut(readDoc(t, "README.md"), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		script.WriteString(block[1])
	}
	if !found || script.Len() == 0 {
		t.Fatalf("README.md has no sh code in a section %q", section)
	}
	return script.String()
}

// setScriptVariable sets a variable of a script to another value.
func setScriptVariable(t *testing.T, script, name, value string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + `=.*$`)
	if len(line.FindAllString(script, -1)) != 1 {
		t.Fatalf("the script does not set %s exactly once:\n%s", name, script)
	}
	return line.ReplaceAllString(script, name+"="+value)
}

func TestCurlExamplesOfREADMEWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("this test needs curl: sudo apt-get install curl")
	}
	git := newGitServer(t)
	repo, commit := git.addRepo("hello.git", map[string]string{"lab.toml": curlLab})
	rt := startRuntime(t, withGit(git))
	script := readmeScript(t, "Try it with curl")
	for name, value := range map[string]string{"REPO": repo, "COMMIT": commit, "RUNTIME": rt.addr} {
		script = setScriptVariable(t, script, name, value)
	}
	programs := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(programs, "agent-runtime")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = programEnv(rt.dir, "PATH="+programs+":"+os.Getenv("PATH"))
	said := newConsole()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	question := rt.answerNext(0, "y\n")
	if !strings.Contains(question, "A local program asks") || !strings.Contains(question, "local:curl-demo") {
		t.Errorf("the question does not say who asks:\n%s", question)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the examples fail: %v\n%s", err, said)
	}
	for _, want := range []string{`"principal":"local:curl-demo","scope":"actions"`, `"lab_id":"hello-lab"`,
		`"status":"running"`, `hello\n`, `"status":"stopped"`, `{"runs":[{`, "has no access any more"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the examples print no %q; they print\n%s", want, said)
		}
	}
}
