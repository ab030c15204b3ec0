package main

// The process of one kernel, from its start to its end.

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

//go:embed kernel_boot.py
var kernelBoot string

const (
	// kernelWithoutPackage is the exit status of a kernel whose environment
	// has no ipykernel.
	kernelWithoutPackage = 97

	kernelStarts      = 5                      // tries when an address turns out to be taken
	kernelPoll        = 5 * time.Millisecond   // between looks whether its sockets are there
	kernelLastOutput  = 500 * time.Millisecond // for output to arrive after the process has ended
	kernelLastWords   = 200 * time.Millisecond // likewise for its standard error
	kernelExitAfter   = time.Second            // for a process to end once its sockets have
	kernelShutdown    = 2 * time.Second        // for a kernel to end when asked
	kernelKillGrace   = 500 * time.Millisecond // for what it left, before it is killed
	kernelSocketPath  = 100                    // bytes that a socket's path may have anywhere
	kernelLinesTold   = 12                     // of those, in an error
	kernelFolderStart = "k-"
)

var (
	errKernelPackage = errors.New("the environment has no ipykernel")
	errKernelAddress = errors.New("the kernel's address is taken")
)

// kernelPlan is what a kernel is started with.
type kernelPlan struct {
	python    string
	dir       string // its working folder
	environ   []string
	sockets   string // where its own folder is made
	transport string // ipc or tcp
	mark      string
	force     <-chan struct{} // closed when it is to end without order; nil never
}

// kernelProcess is a kernel that has started and answers.
type kernelProcess struct {
	family    *family
	proc      *process
	client    *kernelClient
	interrupt kernelInterrupt
	words     *wordTail
	folder    string
	log       *slog.Logger
	force     <-chan struct{}

	ended chan struct{} // closed when nothing of it is left
	ask   sync.Once     // it is told to end once
	end   chan struct{} // closed to have it ended
	asked string        // why it is to end; valid once end is closed
	why   string        // how it ended, a sentence; valid once ended is closed
}

// startKernel starts a kernel and returns when it answers. It tries again
// where an address was taken meanwhile.
func startKernel(ctx context.Context, ps *processes, plan kernelPlan, to kernelListener, log *slog.Logger) (*kernelProcess, error) {
	var err error
	for range kernelStarts {
		var k *kernelProcess
		if k, err = startKernelOnce(ctx, ps, plan, to, log); !errors.Is(err, errKernelAddress) {
			return k, err
		}
		log.Info("kernel start tried again", "err", err)
	}
	return nil, fmt.Errorf("%w, %d times", err, kernelStarts)
}

func startKernelOnce(ctx context.Context, ps *processes, plan kernelPlan, to kernelListener, log *slog.Logger) (*kernelProcess, error) {
	address, folder, err := newKernelFolder(plan)
	if err != nil {
		return nil, err
	}
	k := &kernelProcess{folder: folder, log: log, force: plan.force, ended: make(chan struct{}), end: make(chan struct{})}
	if err := k.spawn(ps, plan); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	err = k.connect(ctx, address, to)
	if err == nil {
		err = k.client.ready(ctx)
	}
	if err == nil {
		k.words.forget()
		go k.watch() // ends with the process
		return k, nil
	}
	if errors.Is(err, errHungUp) {
		waitFor(k.proc.done, kernelExitAfter)
	}
	k.askToEnd("The kernel was ended.")
	k.watch()
	return nil, k.startError(ctx, err)
}

// newKernelFolder makes the folder that nobody else may look into, for a
// kernel's connection file and sockets. Ports of 0 are chosen by the kernel.
func newKernelFolder(plan kernelPlan) (kernelAddress, string, error) {
	folder := filepath.Join(plan.sockets, kernelFolderStart+strings.ToLower(rand.Text()[:8]))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return kernelAddress{}, "", err
	}
	a := kernelAddress{Transport: "tcp", IP: "127.0.0.1", Key: newJupyterKey()}
	if prefix := filepath.Join(folder, "s"); plan.transport == "ipc" && len(prefix)+2 <= kernelSocketPath {
		a = kernelAddress{Transport: "ipc", IP: prefix, Shell: 1, IOPub: 2, Stdin: 3, Control: 4, Heartbeat: 5, Key: a.Key}
	}
	file := struct {
		kernelAddress
		Key    string `json:"key"`
		Scheme string `json:"signature_scheme"`
	}{a, string(a.Key), "hmac-sha256"}
	data, err := json.Marshal(file)
	if err == nil {
		err = os.WriteFile(connectionFile(folder), data, 0o600)
	}
	if err != nil {
		return kernelAddress{}, "", errors.Join(err, os.RemoveAll(folder))
	}
	return a, folder, nil
}

func connectionFile(folder string) string { return filepath.Join(folder, "kernel.json") }

// removeKernelFolders removes what kernels of an earlier life of the runtime
// left in the folder of sockets. No kernel may be running.
func removeKernelFolders(sockets string) error {
	left, err := filepath.Glob(filepath.Join(sockets, kernelFolderStart+"*"))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func (k *kernelProcess) spawn(ps *processes, plan kernelPlan) error {
	family, err := ps.newFamily(plan.mark)
	if err != nil {
		return err
	}
	reader, writer, err := newOutputPipe()
	if err != nil {
		family.close()
		return err
	}
	cmd := exec.Command(plan.python, "-c", kernelBoot, "-f", connectionFile(k.folder), "--HistoryManager.enabled=False")
	cmd.Dir, cmd.Env = plan.dir, inFolder(plan.environ, plan.dir)
	cmd.Stdout, cmd.Stderr = writer, writer
	if k.interrupt, err = newKernelInterrupt(cmd); err == nil {
		k.proc, err = family.start(cmd)
	}
	err = errors.Join(err, writer.Close())
	if err != nil {
		k.interrupt.close()
		family.close()
		return errors.Join(err, reader.Close())
	}
	k.family, k.words = family, newWordTail(reader)
	return nil
}

// connect waits for the kernel's sockets and connects to them.
func (k *kernelProcess) connect(ctx context.Context, a kernelAddress, to kernelListener) error {
	tick := time.NewTicker(kernelPoll)
	defer tick.Stop()
	for {
		if a.Shell == 0 {
			a = chosenPorts(k.folder, a)
		}
		if a.Shell != 0 {
			client, err := dialKernel(ctx, a, to, k.log)
			if err == nil {
				k.client = client
				return nil
			}
			if errors.Is(err, errZMTPFraming) {
				return fmt.Errorf("%w: %w", errKernelAddress, err)
			}
		}
		select {
		case <-tick.C:
		case <-k.proc.done:
			return errHungUp
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// chosenPorts reads the ports that the kernel has written into its connection
// file; they are 0 while it has not.
func chosenPorts(folder string, a kernelAddress) kernelAddress {
	data, err := os.ReadFile(connectionFile(folder))
	chosen := a
	if err != nil || json.Unmarshal(data, &chosen) != nil {
		return a
	}
	if chosen.Shell == 0 || chosen.IOPub == 0 || chosen.Stdin == 0 || chosen.Control == 0 {
		return a
	}
	chosen.Transport, chosen.IP = a.Transport, a.IP
	return chosen
}

// startError says why the kernel, which has ended, did not start.
func (k *kernelProcess) startError(ctx context.Context, err error) error {
	words := k.words.lines(kernelLinesTold)
	switch state := k.proc.state(); {
	case state.ExitCode() == kernelWithoutPackage:
		return errKernelPackage
	case strings.Contains(words, "ZMQError") && strings.Contains(words, "in use"), errors.Is(err, errKernelAddress):
		return errKernelAddress
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return problemf(kindMissingTool, "The kernel did not start in time.%s", k.saying(words)).because(err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return problemf(kindMissingTool, "The kernel did not start: %s%s", k.why, k.saying(words)).because(err)
}

func (k *kernelProcess) saying(words string) string {
	if words == "" {
		return ""
	}
	return " Its last lines: " + words
}

// watch waits for the process to end, or to be ended, and then clears up. The
// kernel's last output is read before ended is closed.
func (k *kernelProcess) watch() {
	defer close(k.ended)
	var broken, drained <-chan struct{} // those of a kernel never connected to are nil: not waited for
	if k.client != nil {
		broken, drained = k.client.broken, k.client.drained
	}
	select {
	case <-k.proc.done:
	case <-k.end:
	case <-broken:
		waitFor(k.proc.done, kernelExitAfter)
	}
	switch state := k.proc.state(); {
	case state != nil:
		k.why = describeEnd(state)
		if k.client != nil {
			waitFor(drained, kernelLastOutput)
		}
	case isClosed(k.end):
		k.why = k.asked
		k.endPolitely()
	default:
		k.why = "The kernel hung up."
	}
	k.clear()
	k.log.Info("kernel ended", "why", k.why)
}

// endPolitely asks the kernel to end and gives it time, unless it never
// came so far that it could be asked.
func (k *kernelProcess) endPolitely() {
	if k.client == nil || k.client.shutdown() != nil {
		return
	}
	timer := time.NewTimer(kernelShutdown)
	defer timer.Stop()
	select {
	case <-k.proc.done:
	case <-timer.C:
	case <-k.force:
	}
}

// clear ends what is left of the kernel and removes its files.
func (k *kernelProcess) clear() {
	k.family.end(k.force, k.proc, kernelKillGrace)
	if k.client != nil {
		k.client.close()
	}
	k.words.close(kernelLastWords)
	k.family.close()
	k.interrupt.close()
	if err := os.RemoveAll(k.folder); err != nil {
		k.log.Warn("a kernel's folder was not removed", "err", err)
	}
}

// interruptNow tells the kernel to leave what it does. A cell that awaits
// something leaves it when the kernel's event loop comes round, which only a
// message makes it do: the signal alone does not.
func (k *kernelProcess) interruptNow() {
	k.interrupt.send(k.proc)
	if err := k.client.wake(); err != nil {
		k.log.Debug("interrupted kernel not woken", "err", err)
	}
}

// askToEnd has the kernel ended for a reason, a sentence; the first one counts.
func (k *kernelProcess) askToEnd(why string) {
	k.ask.Do(func() {
		k.asked = why
		close(k.end)
	})
}

// stop has the kernel ended and returns when nothing of it is left.
func (k *kernelProcess) stop(why string) {
	k.askToEnd(why)
	<-k.ended
}

// dying reports whether the kernel is of no more use.
func (k *kernelProcess) dying() bool {
	return isClosed(k.end) || isClosed(k.proc.done) || isClosed(k.client.broken)
}

// said is how the kernel ended and what it said at last, for people.
func (k *kernelProcess) said() string { return k.why + k.saying(k.words.lines(kernelLinesTold)) }

// death is what the cell that was running is told when the kernel has ended.
func (k *kernelProcess) death() cellError {
	lines := strings.Split(k.words.lines(kernelLinesTold), "\n")
	if lines[0] == "" {
		lines = nil
	}
	return cellError{Name: "KernelDied", Value: k.why, Traceback: lines}
}

func describeEnd(state *os.ProcessState) string {
	if state.Success() {
		return "The kernel ended by itself."
	}
	return fmt.Sprintf("The kernel ended unexpectedly (%s).", state)
}
