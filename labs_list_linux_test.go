package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// labList is the answer to a list of labs.
type labList struct {
	Labs       []prepared
	Unprepared []struct{ Repo, Commit string }
}

func (s site) listLabs() labList {
	s.rt.t.Helper()
	return asJSON[labList](s.rt.t, s.want(http.StatusOK, "GET", "/labs", nil))
}

func TestSiteFindsTheLabsItMayUseAndNoOthers(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page, other := rt.pair("https://course.example", scopeActions), rt.pair("https://other.example", scopeActions)
	boxes := rt.pair("https://boxes.example", scopeSandbox)
	repo, commit := git.addRepo("list.git", map[string]string{"lab.toml": labManifest(t, "list", shellAction("one", "echo 1"), shellAction("two", "echo 2"))})
	if r := page.want(http.StatusOK, "GET", "/labs", nil); string(r.body) != `{"labs":[],"unprepared":[]}`+"\n" {
		t.Errorf("before anything is prepared: %s", r.body)
	}
	lab := page.prepare(repo, commit)
	if err := os.WriteFile(filepath.Join(lab.Path, "lab.toml"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := page.listLabs()
	if len(got.Labs) != 1 || len(got.Unprepared) != 0 || got.Labs[0].Commit != commit || len(got.Labs[0].Actions) != 2 || !slices.Equal(got.Labs[0].Modified, []string{"lab.toml"}) {
		t.Errorf("after it was prepared: %+v", got)
	}
	if got := other.listLabs(); len(got.Labs) != 0 || len(got.Unprepared) != 0 {
		t.Errorf("another site sees %+v", got)
	}
	boxes.want(http.StatusForbidden, "GET", "/labs", nil)

	rt.end(syscall.SIGTERM)
	rt = rt.again()
	page.rt = rt
	got = page.listLabs()
	if len(got.Labs) != 0 || len(got.Unprepared) != 1 || got.Unprepared[0].Repo != repo || got.Unprepared[0].Commit != commit {
		t.Errorf("after a restart: %+v", got)
	}
	page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit)) // asks nothing
	if got := page.listLabs(); len(got.Labs) != 1 || len(got.Unprepared) != 0 {
		t.Errorf("prepared again: %+v", got)
	}
	if err := os.RemoveAll(lab.Path); err != nil {
		t.Fatal(err)
	}
	if got := page.listLabs(); len(got.Labs) != 0 || len(got.Unprepared) != 1 {
		t.Errorf("without its folder: %+v", got)
	}
	if out, code := rt.command("lab", "forget", repo); code != 0 {
		t.Fatal(out)
	}
	if got := page.listLabs(); len(got.Labs) != 0 || len(got.Unprepared) != 0 {
		t.Errorf("after it was forgotten: %+v", got)
	}
}
