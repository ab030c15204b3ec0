package main

import (
	"net/http"
	"strings"
	"testing"
)

const helloLab = `schema = 1
id = "hello-lab"
title = "Hello"

[actions.greet]
label = "Say hello"
steps = [["python", "-c", "print('hello')"]]
timeout = 60

[actions.fail]
label = "Fail"
steps = [["sh", "-c", "echo before; exit 3"], ["echo", "never"]]
`

// withGit lets the runtime fetch from s.
func withGit(s *gitServer) runtimeOption { return withEnv("GIT_SSL_CAINFO=" + s.caFile) }

func TestPagePreparesAndRunsAnApprovedLab(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("hello.git", map[string]string{"lab.toml": helloLab})
	rt := startRuntime(t, withGit(git))
	page := rt.pair("https://course.example", scopeActions)
	lab := page.prepare(repo, commit)
	if lab.LabID != "hello-lab" || lab.Commit != commit || len(lab.Actions) != 2 || lab.Actions[0].Name != "greet" {
		t.Errorf("prepared %+v", lab)
	}
	run := page.run(lab, "greet")
	if run.Status != "succeeded" || *run.ExitCode != 0 {
		t.Errorf("greet: %+v", run)
	}
	if want := "$ python -c 'print('\"'\"'hello'\"'\"')'\nhello\n[done · "; !strings.HasPrefix(run.Output, want) {
		t.Errorf("greet wrote %q, want it to begin with %q", run.Output, want)
	}
	run = page.run(lab, "fail")
	if run.Status != "failed" || *run.ExitCode != 3 || strings.Contains(run.Output, "never") {
		t.Errorf("fail: %+v", run)
	}
	page.want(http.StatusOK, "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit})
}
