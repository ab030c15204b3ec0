package main

// Figures that do not depend on how busy the machine is: what is measured and
// what it is compared with take turns, and medians are told.

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var execTrue = map[string]any{"cmd": []string{"/usr/bin/true"}}

// compare reports the medians of two ways of doing the same, and their ratio.
func compare(b *testing.B, ours, bare func()) {
	b.Helper()
	var took [2][]time.Duration
	for b.Loop() {
		for i, do := range []func(){ours, bare} {
			begin := time.Now()
			do()
			took[i] = append(took[i], time.Since(begin))
		}
	}
	mine, theirs := median(took[0]), median(took[1])
	b.ReportMetric(mine.Seconds()*1e3, "ms/ours")
	b.ReportMetric(theirs.Seconds()*1e3, "ms/bare")
	b.ReportMetric(float64(mine)/float64(theirs), "ours/bare")
}

func BenchmarkExecOfTrue(b *testing.B) {
	page := sandboxSite(b, sandboxConfigText)
	box := page.sandbox(map[string]any{})
	s := testSandboxes(b, nil)
	folder := filepath.Dir(mustCreate(b, s, sandboxOrder{}).workdir)
	compare(b,
		func() { page.want(200, "POST", box+"/exec", execTrue) },
		func() { bareRun(b, s, folder) })
}

// BenchmarkTwentyExecsAtOnce compares with bare runs of which as many go on at
// once as there are processors, since no more commands run than that.
func BenchmarkTwentyExecsAtOnce(b *testing.B) {
	page := sandboxSite(b, sandboxConfigText)
	const many = 20
	boxes := make([]string, many)
	for i := range boxes {
		boxes[i] = page.sandbox(map[string]any{})
	}
	s := testSandboxes(b, nil)
	folder := filepath.Dir(mustCreate(b, s, sandboxOrder{}).workdir)
	cores := make(chan struct{}, runtime.NumCPU())
	atOnce := func(do func(i int)) func() {
		return func() {
			var wg sync.WaitGroup
			for i := range many {
				wg.Go(func() { do(i) })
			}
			wg.Wait()
		}
	}
	compare(b,
		atOnce(func(i int) { page.call(b.Context(), "POST", boxes[i]+"/exec", execTrue) }),
		atOnce(func(int) {
			cores <- struct{}{}
			defer func() { <-cores }()
			bareRun(b, s, folder)
		}))
}

// bareRun runs bubblewrap as an exec does, with nothing around it.
func bareRun(b testing.TB, s *sandboxes, folder string) {
	b.Helper()
	tools, fault := s.isolator.ready(b.Context())
	if fault != nil {
		b.Fatal(fault)
	}
	err := tools.withView(folder, func(seen string) error {
		e, err := tools.enclose(sandboxCommand{folder: folder, argv: []string{"/usr/bin/true"}, quota: s.quota()}, seen)
		if err != nil {
			return err
		}
		defer e.close()
		_, err = e.barrier.Write([]byte{1})
		_ = e.cmd.Wait()
		e.drain()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkCreateSandbox(b *testing.B) {
	page := sandboxSite(b, strings.ReplaceAll(sandboxConfigText, "per_min = 1000", "per_min = 10000"))
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		box := page.sandbox(map[string]any{})
		took = append(took, time.Since(begin))
		page.want(204, "DELETE", box, nil)
	}
	b.ReportMetric(median(took).Seconds()*1e3, "ms/create")
}

func BenchmarkPutAndGetOfAMegabyte(b *testing.B) {
	page := sandboxSite(b, sandboxConfigText)
	box := page.sandbox(map[string]any{})
	body := map[string]any{"content": strings.Repeat("0123456789abcde\n", 1<<16)}
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		page.want(200, "PUT", box+"/files/f", body)
		page.want(200, "GET", box+"/files/f", nil)
		took = append(took, time.Since(begin))
	}
	b.ReportMetric(median(took).Seconds()*1e3, "ms/pair")
}
