package main

// A running runtime: its parts, in the order in which they are made ready,
// and the order in which they end.

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// questionsOpen is how many questions may wait for the person.
const questionsOpen = 8

// How long what the own page asks for is kept, and how long finding it out
// may take.
const (
	doctorKept  = 5 * time.Second
	doctorLimit = 30 * time.Second
	sizesKept   = 10 * time.Second
	sizesLimit  = 20 * time.Second
)

// answersEnd is how long answers under way may take once the program is
// asked to end.
const answersEnd = 2 * time.Second

// runtimeParts is a running runtime.
type runtimeParts struct {
	cli       *cli
	cfg       config
	log       *slog.Logger
	asked     context.Context // ends when the program is asked to end
	force     context.Context // ends when it is asked again
	terminal  *terminal
	questions *questions
	control   *controlServer
	ports     *ports
	opened    chan net.Listener // a port that is opened late
	processes *processes
	envs      *environments
	server    *server
	group     sync.WaitGroup // everything that goes on besides requests
}

func newRuntime(c *cli, cfg config, asked, force context.Context) *runtimeParts {
	level := slog.LevelInfo
	if cfg.debug {
		level = slog.LevelDebug
	}
	term := newTerminal(c.stdin, c.stdout.file, c.stderr)
	ps := newProcesses()
	ps.toolMark = familyPrefix(cfg.dir) + "tool"
	return &runtimeParts{
		cli: c, cfg: cfg, log: newLogger(term, level), terminal: term, asked: asked, force: force,
		questions: newQuestions(questionsOpen, cfg.pairingTimeout), processes: ps, opened: make(chan net.Listener, 1),
	}
}

// open makes everything ready to serve. The data folder and the port are
// taken first: where either has another holder, nothing is changed.
func (rt *runtimeParts) open() (err error) {
	reload := func() {
		_, _ = rt.server.grants()
		if l := rt.ports.openLate(); l != nil {
			rt.opened <- l // the only one there ever is, so there is room
		}
	}
	if rt.control, err = listenControl(rt.cfg.dir, rt.questions, reload, rt.log); err != nil {
		return err
	}
	if rt.ports, err = listen(rt.cfg, rt.log); err != nil {
		return rt.abandon(err)
	}
	if rt.server, err = rt.newServer(); err != nil {
		return rt.abandon(err)
	}
	return nil
}

// abandon gives up what open took.
func (rt *runtimeParts) abandon(err error) error {
	ended, end := context.WithCancel(context.Background())
	end()
	rt.control.serve(ended)
	return errors.Join(err, closeAll(rt.ports.all()))
}

func (rt *runtimeParts) newServer() (*server, error) {
	cfg, log, environ := rt.cfg, rt.log, rt.cli.environ
	state, err := openState(cfg.dir, log)
	if err != nil {
		return nil, err
	}
	rs, err := openRuns(filepath.Join(cfg.dir, "runs"), cfg, rt.force.Done(), rt.processes, log)
	if err != nil {
		return nil, err
	}
	rt.envs = newEnvironments(cfg.dir, cfg, rt.processes, log)
	rt.envs.sweep()
	ls, err := openLabs(rt.asked, filepath.Join(cfg.dir, "labs"), labDeps{
		fetcher: newFetcher(rt.processes, environ, log), envs: rt.envs, state: state,
		questions: rt.questions, runs: rs, environ: environ, log: log,
	})
	if err != nil {
		return nil, err
	}
	sockets, err := socketFolder(cfg.dir)
	if err != nil {
		return nil, err
	}
	if err := removeKernelFolders(sockets); err != nil {
		return nil, err
	}
	ks := newKernels(kernelSettings{
		dir: cfg.dir, sockets: sockets, startup: cfg.kernelStartup, idle: cfg.kernelIdle,
		environ: environ, force: rt.force.Done(), checkout: ls.folder,
	}, rt.processes, rt.envs, log)
	boxes, err := newSandboxes(cfg.dir, cfg.sandbox, state, rt.processes, log)
	if err != nil {
		return nil, err
	}
	return &server{
		cfg: cfg, version: programVersion(), log: log, state: state, shutdown: rt.asked,
		capabilities: capabilities(cfg, environ), addresses: rt.ports.addresses,
		questions: rt.questions, pairings: newPairings(state, rt.questions, log),
		labs: ls, runs: rs, kernels: ks, envs: rt.envs, sandboxes: boxes,
		uses: openLastUses(cfg.dir, log), doctor: rt.newDoctor(), sizes: newRecent(rt.asked, sizesKept, sizesLimit,
			func(ctx context.Context) (diskUse, error) { return measureUse(ctx, rt.envs, boxes) }),
	}, nil
}

// newDoctor looks for what works on this machine when the own page asks.
func (rt *runtimeParts) newDoctor() *recent[diagnosis] {
	port := portServed(rt.ports.plain.Addr().String())
	return newRecent(rt.asked, doctorKept, doctorLimit, func(ctx context.Context) (diagnosis, error) {
		cfg := rt.cfg
		if addr, ok := rt.ports.secureAddr().(*net.TCPAddr); ok {
			cfg.httpsPort = addr.Port // it may have been any free one
		}
		return examine(ctx, rt.processes, rt.cli.environ, cfg, port, checkHTTPS(ctx, cfg)), nil
	})
}

// capabilities lists what this machine can serve besides sandboxes, by what
// is on PATH: nothing is started to find out.
func capabilities(cfg config, environ []string) []string {
	var can []string
	has := func(programs ...string) bool {
		return slices.ContainsFunc(programs, func(name string) bool {
			_, err := lookPath(name, environ)
			return err == nil
		})
	}
	if cfg.python != "" || has("python3", "python", "py") {
		can = append(can, "python", "jupyter")
	}
	can = append(can, "local_fs")
	if has("git") {
		can = append(can, "lab_actions")
	}
	return append(can, "pairing_scopes", "local_clients")
}

// serve answers requests until the program is asked to end, and then ends
// everything in order.
func (rt *runtimeParts) serve() error {
	background, stop := context.WithCancel(context.Background())
	defer stop()
	rt.group.Go(func() { rt.processes.adoptOrphans(background) })
	rt.group.Go(func() { rt.control.serve(background) })
	rt.group.Go(func() { rt.terminal.serve(background, rt.questions) })
	rt.group.Go(func() { rt.server.sandboxes.reap(background) })
	rt.group.Go(func() { rt.server.uses.keep(background, rt.server.state) })
	web := newHTTPServer(rt.asked, newHandler(rt.server), rt.log)
	err := rt.answer(web)
	rt.questions.close()
	rt.group.Go(func() { endAnswers(rt.force, web) })
	rt.group.Go(rt.server.kernels.close)
	rt.group.Go(rt.server.labs.close)
	rt.group.Go(rt.server.doctor.wait)
	rt.group.Go(rt.server.sizes.wait)
	rt.envs.close()
	rt.server.runs.close()
	rt.server.sandboxes.close()
	stop()
	rt.group.Wait()
	return err
}

// answer has web answer on all ports until the program is asked to end, or a
// port fails.
func (rt *runtimeParts) answer(web *http.Server) error {
	failed := make(chan error, 2) // a port for http, and one for https
	answerOn := func(l net.Listener) {
		rt.group.Go(func() { // ends with the web server
			if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	for _, l := range rt.ports.all() {
		answerOn(l)
	}
	for {
		select {
		case l := <-rt.opened:
			answerOn(l)
		case err := <-failed:
			return err
		case <-rt.asked.Done():
			return nil
		}
	}
}

// endAnswers lets answers under way come to their end for a moment, or until
// force ends.
func endAnswers(force context.Context, web *http.Server) {
	ctx, cancel := context.WithTimeout(force, answersEnd)
	defer cancel()
	if web.Shutdown(ctx) != nil {
		_ = web.Close()
	}
}
