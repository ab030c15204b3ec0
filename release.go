//go:build ignore

// Release builds the archives of a version for every system, the same bytes
// wherever and whenever it runs with the same Go:
//
//	go run release.go
//
// Each archive holds the program, its completions and manual page, and the
// documents. Their times are that of the commit, or SOURCE_DATE_EPOCH. What is
// built are the files of the commit, not those of the checkout, which may be
// written with other line ends or stand beside files that git is told to hide.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const name = "agent-runtime"

const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	out := flag.String("out", "dist", "the `folder` for the archives")
	version := flag.String("version", "", "the `version` that this must be; empty takes what the source says")
	targets := flag.String("targets", allTargets, "systems to build for")
	dirty := flag.Bool("dirty", false, "also release what is not committed")
	flag.Parse()
	if err := release(*out, *version, strings.Split(*targets, ","), *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// item is one file of an archive.
type item struct {
	path string // in the archive's folder, with slashes
	mode fs.FileMode
	data []byte
}

func release(out, version string, targets []string, dirty bool) error {
	changed, err := sourceTime(dirty)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source, err := sourceFolder(work, dirty)
	if err != nil {
		return err
	}
	if err := plainCompiler(); err != nil {
		return err
	}
	here := filepath.Join(work, name+ending(runtime.GOOS))
	if err := build(source, runtime.GOOS, runtime.GOARCH, here); err != nil {
		return err
	}
	said, err := output(here, "version")
	if err != nil {
		return err
	}
	stamped := strings.TrimSpace(strings.TrimPrefix(said, name))
	if err := checkVersion(stamped, version, dirty); err != nil {
		return err
	}
	items, err := sharedItems(source, here)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	return archiveAll(out, work, source, stamped, targets, items, changed)
}

// inGit reports whether this is a checkout, and not an unpacked archive.
func inGit() bool {
	_, err := os.Stat(".git")
	return err == nil
}

// sourceTime returns the time that every file of the release gets. Unless
// dirty, it fails when something is not committed.
func sourceTime(dirty bool) (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if !inGit() && epoch == "" {
		return time.Time{}, errors.New("this is no checkout of git: set SOURCE_DATE_EPOCH to the time of the source, in seconds since 1970")
	}
	if inGit() && !dirty {
		changes, err := output("git", "status", "--porcelain", "--untracked-files=normal")
		if err != nil {
			return time.Time{}, err
		}
		if changes != "" {
			return time.Time{}, fmt.Errorf("these changes are not committed, so nobody else could build the same:\n%sCommit them, or try with -dirty", changes)
		}
	}
	if epoch == "" {
		committed, err := output("git", "show", "--no-patch", "--format=%ct", "HEAD")
		if err != nil {
			return time.Time{}, err
		}
		epoch = strings.TrimSpace(committed)
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be a number of seconds, not %q", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// sourceFolder is the folder to build from: the files of the commit, written
// into work as they are, or this one where there is no commit or, if dirty, the
// checkout counts.
func sourceFolder(work string, dirty bool) (string, error) {
	if !inGit() || dirty {
		return ".", nil
	}
	packed, dir := filepath.Join(work, "source.zip"), filepath.Join(work, "source")
	if _, err := output("git", "-c", "core.autocrlf=false", "-c", "core.eol=lf", "-c", "core.attributesFile=",
		"archive", "--format=zip", "--output="+packed, "HEAD"); err != nil {
		return "", err
	}
	zr, err := zip.OpenReader(packed)
	if err != nil {
		return "", err
	}
	defer zr.Close()
	return dir, os.CopyFS(dir, zr)
}

// plainCompiler refuses experiments that go env -w has switched on for the
// compiler: an environment that overrules them cannot be made.
func plainCompiler() error {
	set, err := output("go", "env", "GOEXPERIMENT")
	if err != nil {
		return err
	}
	if set = strings.TrimSpace(set); set != "" {
		return fmt.Errorf("the compiler is set to GOEXPERIMENT=%s, with which nobody else would build the same; unset it, also with go env -u GOEXPERIMENT", set)
	}
	return nil
}

// checkVersion holds the source's version against the one that is wanted, if
// any, and unless dirty against the tags of the commit.
func checkVersion(source, wanted string, dirty bool) error {
	if wanted != "" && wanted != source {
		return fmt.Errorf("the source says that it is version %s, not %s; change sourceVersion and CHANGELOG.md first", source, wanted)
	}
	if !inGit() || dirty {
		return nil
	}
	tags, err := output("git", "tag", "--points-at", "HEAD", "v*")
	if err != nil {
		return err
	}
	if tags != "" && !slices.Contains(strings.Fields(tags), "v"+source) {
		return fmt.Errorf("this commit has the tag %s, and the source says that it is version %s", strings.TrimSpace(tags), source)
	}
	return nil
}

// sharedItems are the files that every archive holds: some of the folder
// source, and what the program at here writes.
func sharedItems(source, here string) ([]item, error) {
	var items []item
	for path, args := range map[string][]string{
		"completions/" + name + ".bash": {"completion", "bash"},
		"completions/_" + name:          {"completion", "zsh"},
		"completions/" + name + ".fish": {"completion", "fish"},
		"man/" + name + ".1":            {"man"},
	} {
		text, err := output(here, args...)
		if err != nil {
			return nil, err
		}
		items = append(items, item{path, 0o644, []byte(text)})
	}
	files := os.DirFS(source)
	documents, err := fs.Glob(files, "docs/*")
	if err != nil {
		return nil, err
	}
	for _, file := range append(documents, "LICENSE", "README.md", "CHANGELOG.md") {
		data, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		items = append(items, item{file, 0o644, data})
	}
	return items, nil
}

// archiveAll writes an archive for each target into out, and their sums. It
// builds from the folder source, in work.
func archiveAll(out, work, source, version string, targets []string, shared []item, changed time.Time) error {
	var sums []string
	for _, target := range slices.Sorted(slices.Values(targets)) {
		goos, goarch, found := strings.Cut(target, "/")
		if !found {
			return fmt.Errorf("%q is no target such as linux/amd64", target)
		}
		program := filepath.Join(work, goos+"-"+goarch)
		if err := build(source, goos, goarch, program); err != nil {
			return err
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		items := append(slices.Clone(shared), item{name + ending(goos), 0o755, data})
		file, archive, err := pack(fmt.Sprintf("%s_%s_%s_%s", name, version, goos, goarch), goos, items, changed)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, file), archive, 0o644); err != nil {
			return err
		}
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(archive), file))
		fmt.Print(sums[len(sums)-1])
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// pack makes the archive of a system, with all items in one folder.
func pack(folder, goos string, items []item, changed time.Time) (file string, archive []byte, err error) {
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.path, b.path) })
	var b bytes.Buffer
	if goos == "windows" {
		err = packZip(&b, folder, items, changed)
		return folder + ".zip", b.Bytes(), err
	}
	err = packTar(&b, folder, items, changed)
	return folder + ".tar.gz", b.Bytes(), err
}

// packTar leaves out who made the files and with what.
func packTar(w io.Writer, folder string, items []item, changed time.Time) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	for _, i := range items {
		header := &tar.Header{Name: folder + "/" + i.path, Mode: int64(i.mode), Size: int64(len(i.data)), ModTime: changed, Format: tar.FormatUSTAR}
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		if _, err := tw.Write(i.data); err != nil {
			return err
		}
	}
	return errors.Join(tw.Close(), zw.Close())
}

func packZip(w io.Writer, folder string, items []item, changed time.Time) error {
	zw := zip.NewWriter(w)
	for _, i := range items {
		header := &zip.FileHeader{Name: folder + "/" + i.path, Method: zip.Deflate, Modified: changed}
		header.SetMode(i.mode)
		fw, err := zw.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := fw.Write(i.data); err != nil {
			return err
		}
	}
	return zw.Close()
}

// build compiles the program of the folder source. What the environment might change of the result
// is set; the state of the checkout is left out, since it has been looked at.
func build(source, goos, goarch, file string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly",
		"GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s/%s: %w\n%s", goos, goarch, err, said)
	}
	return nil
}

func ending(goos string) string {
	if goos == "windows" {
		return ".exe"
	}
	return ""
}

// output is what a program writes.
func output(program string, args ...string) (string, error) {
	var errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", program, strings.Join(args, " "), err, &errs)
	}
	return string(out), nil
}
