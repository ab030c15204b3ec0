package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shortFolder is a data folder whose path is short enough for a socket.
func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startControl serves the control socket of dir until stop is called, which
// waits for its end.
func startControl(t *testing.T, dir string, q *questions, reload func()) (stop func()) {
	t.Helper()
	c, err := listenControl(dir, q, reload, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { c.serve(ctx) })
	stop = func() { cancel(); serving.Wait() }
	t.Cleanup(stop)
	return stop
}

func TestQuestionsAreReadWholeAndAnsweredFromOutside(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	q := newQuestions(8, time.Minute)
	startControl(t, dir, q, nil)
	what := siteQuestion(testSite)
	what.body = append(what.body, strings.Repeat("<long> ", 100_000))
	for _, yes := range []bool{true, false} {
		result := make(chan error, 1)
		go func() { result <- q.ask(t.Context(), what) }() // ends with the answer
		open, err := q.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reply, err := callControl(dir, controlRequest{Do: controlQuestions})
		if err != nil || len(reply.Questions) != 1 {
			t.Fatalf("questions = %v, %v, want one", len(reply.Questions), err)
		}
		if got := reply.Questions[0]; got.ID != open.id || got.Title != what.title || !slices.Equal(got.Body, what.body) {
			t.Errorf("question %q with %d lines is not whole", got.ID, len(got.Body))
		}
		if _, err := callControl(dir, controlRequest{Do: controlAnswer, ID: open.id, Yes: yes}); err != nil {
			t.Errorf("answer: %v", err)
		}
		if err := <-result; (err == nil) != yes {
			t.Errorf("ask = %v, answered %v", err, yes)
		}
		_, err = callControl(dir, controlRequest{Do: controlAnswer, ID: open.id, Yes: true})
		if err == nil || !strings.Contains(err.Error(), open.id) {
			t.Errorf("answered twice: %v", err)
		}
	}
}

func TestReloadReachesTheRuntime(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	var reloads atomic.Int32
	startControl(t, dir, newQuestions(8, time.Minute), func() { reloads.Add(1) })
	if _, err := callControl(dir, controlRequest{Do: controlReload}); err != nil || reloads.Load() != 1 {
		t.Errorf("reload: %v, called %d times", err, reloads.Load())
	}
	if _, err := callControl(dir, controlRequest{Do: "dance"}); err == nil {
		t.Error("an unknown request was accepted")
	}
}

func TestControlSaysWhenNoRuntimeRuns(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	for _, folder := range []string{dir, filepath.Join(dir, "missing")} {
		_, err := callControl(folder, controlRequest{Do: controlQuestions})
		wantKind(t, "no runtime", err, kindNoCapacity)
	}
}

func TestSecondRuntimeOfAFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	q := newQuestions(8, time.Minute)
	stop := startControl(t, dir, q, nil)
	_, err := listenControl(dir, q, nil, slog.New(slog.DiscardHandler))
	wantKind(t, "second runtime", err, kindConflict)
	if _, err := callControl(dir, controlRequest{Do: controlQuestions}); err != nil {
		t.Errorf("the first no longer answers: %v", err)
	}
	stop()
	if _, err := os.Lstat(filepath.Join(dir, "run", controlSocket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of an ended runtime is left: %v", err)
	}
	startControl(t, dir, q, nil)
}

func TestSocketOfADeadRuntimeIsReplaced(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	folder, err := socketFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, controlSocket)})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	startControl(t, dir, newQuestions(8, time.Minute), nil)
	if _, err := callControl(dir, controlRequest{Do: controlQuestions}); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(filepath.Join(folder, controlSocket))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v, want mode 600", info.Mode(), err)
	}
}

func TestBadControlClientDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	stop := startControl(t, dir, newQuestions(8, time.Minute), nil)
	for _, said := range []string{"", "\n", "[]\n", strings.Repeat("x", 2*controlRequestLimit)} {
		conn, err := net.Dial("unix", filepath.Join(dir, "run", controlSocket))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, said)
	}
	if _, err := callControl(dir, controlRequest{Do: controlQuestions}); err != nil {
		t.Error(err)
	}
	began := time.Now()
	stop() // while a silent client is connected
	if took := time.Since(began); took > controlTime/2 {
		t.Errorf("the end took %v", took)
	}
}

func TestSilentControlClientIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &controlServer{questions: newQuestions(8, time.Minute), log: slog.New(slog.DiscardHandler)}
		client, server := net.Pipe()
		go c.exchange(t.Context(), server) // ends within controlTime
		time.Sleep(controlTime)
		if _, err := bufio.NewReader(client).ReadByte(); err != io.EOF {
			t.Errorf("read = %v, want the end", err)
		}
	})
}
