package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bareClient is the client that people use from Python. It connects to the
// kernel of the connection file given, and times each cell of a line of its
// input, a count and the cell as a JSON string. With no file it times the
// start of a kernel to its first reply.
const bareClient = `
import json, os, statistics, subprocess, sys, tempfile, time
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
def connect(file):
    c = BlockingKernelClient(connection_file=file)
    c.load_connection_file()
    c.start_channels()
    return c
def start():
    with tempfile.TemporaryDirectory() as d:
        file, _ = write_connection_file(os.path.join(d, "f.json"), transport="ipc", ip=os.path.join(d, "k"), key=b"key")
        t = time.perf_counter()
        p = subprocess.Popen([sys.executable, "-m", "ipykernel_launcher", "-f", file], cwd=d, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        c = connect(file)
        c.kernel_info(reply=True, timeout=60)
        took = time.perf_counter() - t
        p.kill()
        p.wait()
        return took
if len(sys.argv) == 1:
    print(start())
    sys.exit()
c = connect(sys.argv[1])
c.wait_for_ready(timeout=60)
for line in sys.stdin:
    count, code = json.loads(line)
    took = []
    for _ in range(count):
        t = time.perf_counter()
        c.execute_interactive(code, output_hook=[].append)
        took.append(time.perf_counter() - t)
    print(statistics.median(took), flush=True)
`

// BenchmarkCells compares cells through the runtime with a bare client on the
// same kernel. Both take turns; it reports medians and their ratios.
func BenchmarkCells(b *testing.B) {
	page := startKernelRuntime(b)
	page.cell("import sys")
	file, err := filepath.Glob(filepath.Join(page.rt.dir, "run", "k-*", "kernel.json"))
	if err != nil || len(file) != 1 {
		b.Fatal(file, err)
	}
	bare := exec.Command(kernelTestPython, "-P", "-c", bareClient, file[0])
	in, err := bare.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := bare.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := bare.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = bare.Wait() }()
	for b.Loop() {
		for _, c := range []struct {
			name          string
			rounds, count int
			code          string
		}{
			{"one", 10, 50, "1+1"},
			{"10MB", 7, 1, "s = 'x' * 49 + '\\n'\nfor i in range(200): sys.stdout.write(s * 1024)"},
			{"200k-lines", 3, 1, "for i in range(200000): print('line', i)"},
		} {
			var ours, theirs []float64
			for range c.rounds {
				fmt.Fprintf(in, "[%d, %q]\n", c.count, c.code)
				var took float64
				if _, err := fmt.Fscan(out, &took); err != nil {
					b.Fatal(err)
				}
				theirs = append(theirs, took)
				ours = append(ours, medianOf(c.count, func() { page.cell(c.code) }))
			}
			reportRatio(b, c.name, ours, theirs)
		}
		var ours, theirs []float64
		for range 3 {
			out, err := exec.Command(kernelTestPython, "-P", "-c", bareClient).Output()
			var took float64
			if _, scan := fmt.Sscan(string(out), &took); scan != nil {
				b.Fatal(err, scan)
			}
			theirs = append(theirs, took)
			page.want(200, "DELETE", "/kernel?lab_id=lab", nil)
			ours = append(ours, medianOf(1, func() { page.want(200, "POST", "/kernel/start", map[string]any{"lab_id": "lab"}) }))
		}
		reportRatio(b, "start", ours, theirs)
		b.ReportMetric(streamDelay(b, page).Seconds()*1000, "print-to-event-ms")
	}
}

func reportRatio(b *testing.B, name string, ours, theirs []float64) {
	slices.Sort(ours)
	slices.Sort(theirs)
	our, their := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(our*1000, name+"-ms")
	b.ReportMetric(their*1000, name+"-bare-ms")
	b.ReportMetric(our/their, name+"-ratio")
}

func medianOf(count int, do func()) float64 {
	var took []float64
	for range count {
		start := time.Now()
		do()
		took = append(took, time.Since(start).Seconds())
	}
	slices.Sort(took)
	return took[count/2]
}

// streamDelay is the median time from a print to its event.
func streamDelay(b *testing.B, page site) time.Duration {
	b.Helper()
	var late []time.Duration
	code := "import time\nfor i in range(100):\n  print(time.time())\n  time.sleep(0.01)"
	err := page.stream(context.Background(), code, "", func(e streamEvent) {
		var seconds float64
		if _, err := fmt.Sscan(strings.TrimSpace(e.Text), &seconds); err == nil {
			late = append(late, e.came.Sub(time.UnixMicro(int64(seconds*1e6))))
		}
	})
	if err != nil || len(late) == 0 {
		b.Fatal(err)
	}
	slices.Sort(late)
	return late[len(late)/2]
}
