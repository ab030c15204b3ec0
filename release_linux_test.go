package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// releaseTime is when the commits of these tests were made.
const releaseTime = 1_700_000_000

// releaseCheckout copies this source into a folder called name and commits it there.
func releaseCheckout(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "dist", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, file), 0o755)
		case !entry.Type().IsRegular() || entry.Name() == ".git" || filepath.Ext(file) == ".test":
			return nil // in a second work tree .git is a file
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, file), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	releaseGit(t, dir, "init", "--quiet")
	releaseGit(t, dir, "add", "--all")
	releaseGit(t, dir, "commit", "--quiet", "--message", "release")
	return dir
}

func releaseGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	date := time.Unix(releaseTime, 0).UTC().Format(time.RFC3339)
	cmd.Env = append(programEnv(""), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// makeRelease runs release.go in dir and returns the files that it made, and
// what it said.
func makeRelease(t *testing.T, dir string, env []string, args ...string) (map[string][]byte, string) {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "release.go", "-out", out}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=", "GOFLAGS="), env...)
	said, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(out, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files, string(said)
}

// packed is a file of an archive.
type packed struct {
	mode    fs.FileMode
	changed time.Time
	data    string
}

func unpackTar(t *testing.T, archive []byte) map[string]packed {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]packed)
	for tr := tar.NewReader(zr); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil || header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Fatalf("%s: %+v, %v", header.Name, header, err)
		}
		files[header.Name] = packed{header.FileInfo().Mode(), header.ModTime, string(data)}
	}
}

func unpackZip(t *testing.T, archive []byte) map[string]packed {
	t.Helper()
	zr, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]packed)
	for _, file := range zr.File {
		data, err := fs.ReadFile(zr, file.Name)
		if err != nil {
			t.Fatal(err)
		}
		files[file.Name] = packed{file.Mode(), file.Modified, string(data)}
	}
	return files
}

func TestReleasesOfOneCommitAreTheSameBytes(t *testing.T) {
	t.Parallel()
	targets := "linux/" + runtime.GOARCH + ",windows/arm64"
	one, two := releaseCheckout(t, "one"), releaseCheckout(t, "another place")
	first, said := makeRelease(t, one, nil, "-version", sourceVersion, "-targets", targets)
	second, _ := makeRelease(t, two, []string{"GOFLAGS=-buildvcs=true", "GOAMD64=v3", "CGO_ENABLED=1", "TZ=Asia/Tokyo", "AGENT_RUNTIME_PORT=1"}, "-targets", targets)
	folder := "agent-runtime_" + sourceVersion + "_linux_" + runtime.GOARCH
	windows := "agent-runtime_" + sourceVersion + "_windows_arm64"
	want := []string{"SHA256SUMS", folder + ".tar.gz", windows + ".zip"}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Fatalf("the release is %q, want %q; it said\n%s", got, want, said)
	}
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs between two checkouts", name)
		}
	}
	checkSums(t, first)
	checkArchive(t, folder, unpackTar(t, first[folder+".tar.gz"]), "agent-runtime", one)
	checkArchive(t, windows, unpackZip(t, first[windows+".zip"]), "agent-runtime.exe", one)
}

func TestReleaseHoldsTheFilesOfTheCommitAsTheyAre(t *testing.T) {
	t.Parallel()
	target := []string{"-targets", "linux/" + runtime.GOARCH}
	origin := releaseCheckout(t, "origin")
	want, said := makeRelease(t, origin, nil, target...)
	if len(want) != 2 {
		t.Fatal(said)
	}
	// An account whose git converts line ends and hides files.
	settings := t.TempDir()
	config := filepath.Join(settings, "config")
	writeTestFile(t, filepath.Join(settings, "ignore"), "*.orig\n*_mine.go\n")
	writeTestFile(t, config, "[core]\n\tautocrlf = true\n\texcludesFile = "+filepath.Join(settings, "ignore")+"\n[status]\n\tshowUntrackedFiles = no\n")
	env := []string{"GIT_CONFIG_GLOBAL=" + config}
	dir := filepath.Join(t.TempDir(), "clone")
	releaseGit(t, origin, "-c", "core.autocrlf=true", "clone", "--quiet", origin, dir)
	if !strings.Contains(readDoc(t, filepath.Join(dir, "LICENSE")), "\r\n") {
		t.Fatal("the clone has no other line ends")
	}
	writeTestFile(t, filepath.Join(dir, "docs", "page.md.orig"), "mine")
	writeTestFile(t, filepath.Join(dir, "other_mine.go"), "package main\n\nvar _ = thisIsNotThere\n")
	got, said := makeRelease(t, dir, env, target...)
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s of such an account differs; it said\n%s", name, said)
		}
	}
	writeTestFile(t, filepath.Join(dir, "extra.go"), "package main\n")
	if files, said := makeRelease(t, dir, env, target...); len(files) > 0 || !strings.Contains(said, "extra.go") {
		t.Errorf("release with a file that is not committed made %d files and said\n%s", len(files), said)
	}
}

// A program that was built in a checkout said that it was 0.0.0 and a date.
func TestProgramOfACheckoutSaysTheVersionOfItsSource(t *testing.T) {
	t.Parallel()
	dir := releaseCheckout(t, "source")
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=true", "-o", program, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	if said, err := exec.CommandContext(t.Context(), program, "version").Output(); err != nil || string(said) != "agent-runtime "+sourceVersion+"\n" {
		t.Errorf("version: %q, %v", said, err)
	}
}

// checkSums has the usual program hold a release against its sums.
func checkSums(t *testing.T, release map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range release {
		writeTestFile(t, filepath.Join(dir, name), string(data))
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil || strings.Count(string(said), ": OK\n") != len(release)-1 {
		t.Errorf("sha256sum: %v\n%s", err, said)
	}
}

// checkArchive looks at what an archive of a release made in checkout holds.
func checkArchive(t *testing.T, folder string, files map[string]packed, program, checkout string) {
	t.Helper()
	for name, file := range files {
		mode := fs.FileMode(0o644)
		if name == folder+"/"+program {
			mode = 0o755
		}
		if file.mode != mode || !file.changed.Equal(time.Unix(releaseTime, 0)) || strings.Contains(file.data, checkout) {
			t.Errorf("%s has mode %v and time %v, or tells where it was built", name, file.mode, file.changed)
		}
		if path.Ext(name) == ".md" {
			checkPackedLinks(t, name, files)
		}
	}
	env := programEnv(t.TempDir())
	for name, want := range map[string]string{
		"LICENSE": readDoc(t, "LICENSE"), "README.md": readDoc(t, "README.md"),
		"completions/agent-runtime.bash": sayHere(t, env, "completion", "bash").stdout,
		"completions/_agent-runtime":     sayHere(t, env, "completion", "zsh").stdout,
		"completions/agent-runtime.fish": sayHere(t, env, "completion", "fish").stdout,
	} {
		if got := files[folder+"/"+name].data; got != want || got == "" {
			t.Errorf("%s of the archive is\n%.200s\nwant\n%.200s", name, got, want)
		}
	}
	if page := files[folder+"/man/agent-runtime.1"].data; !strings.HasPrefix(page, `.TH AGENT\-RUNTIME 1 "" "agent\-runtime `+sourceVersion+`"`) {
		t.Errorf("the manual page of the archive is\n%.200s", page)
	}
	binary := files[folder+"/"+program].data
	if strings.HasSuffix(program, ".exe") {
		if !strings.HasPrefix(binary, "MZ") {
			t.Errorf("%s is no program for Windows", program)
		}
		return
	}
	file := filepath.Join(t.TempDir(), program)
	if err := os.WriteFile(file, []byte(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), file, "version").Output(); err != nil || string(said) != "agent-runtime "+sourceVersion+"\n" {
		t.Errorf("the program of the archive says %q, %v", said, err)
	}
}

// checkPackedLinks wants the links of a document to lead into its archive.
func checkPackedLinks(t *testing.T, name string, files map[string]packed) {
	t.Helper()
	for _, link := range docLink.FindAllStringSubmatch(withoutCode(files[name].data), -1) {
		target, err := url.Parse(link[1])
		if err != nil || target.Scheme != "" || target.Path == "" {
			continue
		}
		if _, ok := files[path.Join(path.Dir(name), target.Path)]; !ok {
			t.Errorf("%s of an archive links to %s, which is not in there", name, link[1])
		}
	}
}

func TestReleaseRefusesASourceThatNobodyElseHas(t *testing.T) {
	t.Parallel()
	dir := releaseCheckout(t, "source")
	refused := func(want string, env []string, args ...string) {
		t.Helper()
		if files, said := makeRelease(t, dir, env, append(args, "-targets", "linux/"+runtime.GOARCH)...); len(files) > 0 || !strings.Contains(said, want) {
			t.Errorf("release %q made %d files and said\n%s\nwant %q", args, len(files), said, want)
		}
	}
	refused("it is version "+sourceVersion+", not 9.9.9", nil, "-version", "9.9.9")
	goEnv := filepath.Join(t.TempDir(), "env")
	writeTestFile(t, goEnv, "GOEXPERIMENT=nodwarf5\n")
	refused("GOEXPERIMENT=nodwarf5", []string{"GOENV=" + goEnv})
	releaseGit(t, dir, "tag", "v9.9.9")
	refused("the tag v9.9.9", nil)
	releaseGit(t, dir, "tag", "v"+sourceVersion)
	writeTestFile(t, filepath.Join(dir, "extra.go"), "package main\n")
	refused("extra.go", nil)
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	refused("set SOURCE_DATE_EPOCH", nil)
	refused("not \"soon\"", []string{"SOURCE_DATE_EPOCH=soon"})
	if files, said := makeRelease(t, dir, []string{"SOURCE_DATE_EPOCH=1700000000"}, "-targets", "linux/"+runtime.GOARCH); len(files) != 2 {
		t.Errorf("release without git made %d files and said\n%s", len(files), said)
	}
}
