package main

// Benchmarks of what people wait for, each beside the bare thing it is
// compared with. docs/performance.md holds their figures.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const benchLab = `schema = 1
id = "bench"
title = "Bench"

[actions.true]
label = "One step"
steps = [["true"]]

[actions.flood]
label = "Much output"
steps = [["cat", "big.txt"]]
`

// milliseconds reports the median of took under name.
func milliseconds(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	b.ReportMetric(float64(median(took).Microseconds())/1000, name)
}

func median(took []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(took))[len(took)/2]
}

// BenchmarkServeStart is from the start of the process to its first answer.
func BenchmarkServeStart(b *testing.B) {
	program := filepath.Join(b.TempDir(), "agent-runtime")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	port := freePort(b)
	url := fmt.Sprintf("http://127.0.0.1:%d/health", port)
	var took []time.Duration
	var pss float64
	for b.Loop() {
		cmd := exec.Command(program, "serve", "--port", strconv.Itoa(port))
		cmd.Env = programEnv(filepath.Join(b.TempDir(), "data"))
		start := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		for !answers(url) {
			time.Sleep(200 * time.Microsecond)
		}
		took = append(took, time.Since(start))
		pss = proportionalMemory(b, cmd.Process.Pid)
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	milliseconds(b, "ms/start", took)
	b.ReportMetric(pss, "MB-pss")
}

func freePort(b *testing.B) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func answers(url string) bool {
	answer, err := http.Get(url)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// proportionalMemory is the Pss of a process in megabytes.
func proportionalMemory(b *testing.B, pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^Pss:\s+(\d+) kB`).FindSubmatch(data)
	kb, _ := strconv.Atoi(string(m[1]))
	return float64(kb) / 1024
}

// peakMemory is the largest resident size of a process so far in megabytes.
func peakMemory(b *testing.B, pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`).FindSubmatch(data)
	kb, _ := strconv.Atoi(string(m[1]))
	return float64(kb) / 1024
}

// benchServer serves the whole stack in this process, with one run whose
// window is full.
func benchServer(b *testing.B) (url string, request func(path string) *http.Request, id string) {
	b.Helper()
	dir := b.TempDir()
	log := slog.New(slog.DiscardHandler)
	cfg := defaultConfig(dir)
	state, err := openState(dir, log)
	if err != nil {
		b.Fatal(err)
	}
	token := newToken()
	err = state.update(func(d *stateData) error {
		d.Pairings["https://course.example"] = pairing{TokenHash: token.hash(), Scope: scopeActions, PairedAt: time.Now().UTC()}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	rs, err := openRuns(filepath.Join(dir, "runs"), cfg, nil, newProcesses(), log)
	if err != nil {
		b.Fatal(err)
	}
	w := newWindow(cfg.outputLimit)
	for range 40_000 {
		_, _ = w.Write([]byte("a line of a program's output that is of ordinary length\n"))
	}
	r := &run{record: runRecord{ID: "full", Principal: "https://course.example", LabID: "lab", Status: statusRunning, StartedAt: time.Now()}, window: w}
	rs.byID["full"] = r
	s := &server{
		cfg: cfg, version: "bench", log: log, state: state, runs: rs, kernels: &kernels{}, sandboxes: &sandboxes{}, shutdown: context.Background(),
		pairings: newPairings(state, nil, log), uses: openLastUses(dir, log),
	}
	url = serveBench(b, newHTTPServer(b.Context(), newHandler(s), log))
	return url, func(path string) *http.Request {
		r, _ := http.NewRequest(http.MethodGet, url+path, nil)
		r.Header.Set("Origin", "https://course.example")
		r.Header.Set("Authorization", "Bearer "+token.reveal())
		return r
	}, "full"
}

func serveBench(b *testing.B, web *http.Server) (url string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = web.Serve(l) }() // ends with Close
	b.Cleanup(func() { _ = web.Close() })
	return "http://" + l.Addr().String()
}

// constantServer answers every request with size bytes.
func constantServer(b *testing.B, size int) (url string) {
	body := bytes.Repeat([]byte("x"), size)
	return serveBench(b, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})})
}

// hammer sends b.N requests from 32 clients.
func hammer(b *testing.B, request func() *http.Request) {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	defer transport.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(b.N))
	var clients sync.WaitGroup
	b.ResetTimer()
	for range 32 {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				answer, err := transport.RoundTrip(request())
				if err != nil || answer.StatusCode != http.StatusOK {
					b.Errorf("%v, %v", answer, err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
	clients.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

func plainRequest(url string) func() *http.Request {
	return func() *http.Request {
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		return r
	}
}

// BenchmarkRunGet reads a run with a full window, by 32 clients at once.
func BenchmarkRunGet(b *testing.B) {
	_, request, id := benchServer(b)
	end := asJSON[runState](b, send(request("/labs/runs/"+id))).NextOffset
	b.Run("end", func(b *testing.B) {
		hammer(b, func() *http.Request { return request(fmt.Sprintf("/labs/runs/%s?offset=%d", id, end)) })
	})
	b.Run("end/constant", func(b *testing.B) { hammer(b, plainRequest(constantServer(b, 300))) })
	b.Run("whole", func(b *testing.B) {
		hammer(b, func() *http.Request { return request("/labs/runs/" + id + "?offset=0") })
	})
	b.Run("whole/constant", func(b *testing.B) { hammer(b, plainRequest(constantServer(b, 1_000_000+18_000))) })
}

// benchLabOf prepares the lab of the benchmarks in a real runtime.
func benchLabOf(b *testing.B) (site, prepared) {
	b.Helper()
	git := newGitServer(b)
	repo, commit := git.addRepo("bench.git", map[string]string{"lab.toml": benchLab})
	rt := startRuntime(b, withGit(git))
	page := rt.pair("https://course.example", scopeActions)
	return page, page.prepare(repo, commit)
}

// BenchmarkActionTrue is an action with one `true` step, from the request to
// its end seen through wait, beside a bare fork and exec.
func BenchmarkActionTrue(b *testing.B) {
	page, lab := benchLabOf(b)
	var took, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		page.run(lab, "true")
		took = append(took, time.Since(start))
		start = time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(start))
	}
	milliseconds(b, "ms/action", took)
	milliseconds(b, "ms/bare", bare)
}

// BenchmarkFlood is 100 MB of output through a run, beside a Go program that
// reads the same from a pipe and drops it.
func BenchmarkFlood(b *testing.B) {
	page, lab := benchLabOf(b)
	big := filepath.Join(lab.Path, "big.txt")
	line := strings.Repeat("a line of a program's output that is of ordinary length\n", 1000)
	if err := os.WriteFile(big, []byte(strings.Repeat(line, 100_000_000/len(line))), 0o600); err != nil {
		b.Fatal(err)
	}
	before := peakMemory(b, page.rt.cmd.Process.Pid)
	var took, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		id := page.start(lab, "flood").RunID
		for offset := 1 << 40; ; {
			r := asJSON[runState](b, page.want(http.StatusOK, "GET", fmt.Sprintf("/labs/runs/%s?offset=%d&wait=20", id, offset), nil))
			if r.Status != "running" {
				break
			}
		}
		took = append(took, time.Since(start))
		start = time.Now()
		readAndDrop(b, exec.Command("/bin/cat", big))
		bare = append(bare, time.Since(start))
	}
	milliseconds(b, "ms/run", took)
	milliseconds(b, "ms/bare", bare)
	b.ReportMetric(peakMemory(b, page.rt.cmd.Process.Pid)-before, "MB-growth")
}

func readAndDrop(b *testing.B, cmd *exec.Cmd) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, _ = io.CopyBuffer(io.Discard, onlyReader{out}, make([]byte, readSize))
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSecondPrepare prepares a lab that is approved and there.
func BenchmarkSecondPrepare(b *testing.B) {
	git := newGitServer(b)
	repo, commit := git.addRepo("bench.git", map[string]string{"lab.toml": benchLab})
	page := startRuntime(b, withGit(git)).pair("https://course.example", scopeActions)
	page.prepare(repo, commit)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		page.want(http.StatusOK, "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit})
		took = append(took, time.Since(start))
	}
	milliseconds(b, "ms/prepare", took)
}

// BenchmarkFirstPrepare prepares a new lab whose site's person answers at
// once, beside git's fetch and the making of an environment alone.
func BenchmarkFirstPrepare(b *testing.B) {
	git := newGitServer(b)
	page := startRuntime(b, withGit(git)).pair("https://course.example", scopeActions)
	var took, bare []time.Duration
	for i := 0; b.Loop(); i++ {
		text := strings.Replace(benchLab, `"bench"`, fmt.Sprintf(`"bench-%d"`, i), 1)
		repo, commit := git.addRepo(fmt.Sprintf("bench-%d.git", i), map[string]string{"lab.toml": text})
		start := time.Now()
		page.prepare(repo, commit)
		took = append(took, time.Since(start))
		start = time.Now()
		if out, err := exec.Command("/usr/bin/python3", "-m", "venv", filepath.Join(b.TempDir(), "venv")).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		bare = append(bare, time.Since(start))
	}
	milliseconds(b, "ms/prepare", took)
	milliseconds(b, "ms/venv-alone", bare)
}
