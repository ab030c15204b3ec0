package main

// What a kernel needs before it can start: room, an environment with
// ipykernel, a folder to work in.

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// kernelCount is how many kernels run at once; each takes some 60 MB.
	kernelCount = 32
	// slotWait is how long a start waits for room, which a kernel that has
	// just ended is about to make.
	slotWait = time.Second
)

// kernelSettings is what kernels need to know of the runtime.
type kernelSettings struct {
	dir     string          // the data folder
	sockets string          // private folder for connection files and sockets, with a short path
	tcp     bool            // reach kernels over TCP although Unix sockets would do
	startup time.Duration   // for a kernel to answer
	idle    time.Duration   // after which an unused kernel is ended; 0 never
	environ []string        // variables of this program
	force   <-chan struct{} // closed when there is no more time to end in order; nil never

	// checkout tells where a principal prepared a lab, "" when it did not: its
	// kernels then work in the folder work/<lab> of the data folder.
	checkout func(p principal, lab string) string
}

// kernelWish is what a client wants when there is no kernel yet.
type kernelWish struct {
	create bool   // the environment may be made
	python string // version of a new environment's Python; "" for the usual one
}

// labKey is one principal's use of a lab.
type labKey struct {
	who principal
	lab string
}

// kernelStarter starts kernels.
type kernelStarter struct {
	settings kernelSettings
	ps       *processes
	envs     *environments
	packages *packages
	slots    chan struct{} // holds a value for each kernel
}

func newKernelStarter(settings kernelSettings, ps *processes, envs *environments, p *packages) *kernelStarter {
	return &kernelStarter{settings: settings, ps: ps, envs: envs, packages: p, slots: make(chan struct{}, kernelCount)}
}

// start starts a kernel of a lab, with the environment and ipykernel made
// ready before. The caller calls release once the kernel has ended.
func (s *kernelStarter) start(ctx context.Context, k labKey, wish kernelWish, to kernelListener, log *slog.Logger) (*kernelProcess, error) {
	select {
	case s.slots <- struct{}{}:
	case <-time.After(slotWait):
		return nil, problemf(kindNoCapacity, "%d kernels run already: shut one down first.", kernelCount)
	}
	started, err := s.startInEnvironment(ctx, k, wish, to, log)
	if err != nil {
		s.release()
	}
	return started, err
}

func (s *kernelStarter) release() { <-s.slots }

func (s *kernelStarter) startInEnvironment(ctx context.Context, key labKey, wish kernelWish, to kernelListener, log *slog.Logger) (*kernelProcess, error) {
	lab := key.lab
	if err := s.makeEnvironment(ctx, lab, wish); err != nil {
		return nil, err
	}
	plan, err := s.plan(key)
	if err != nil {
		return nil, err
	}
	try := func() (*kernelProcess, error) {
		brief, cancel := context.WithTimeout(ctx, s.settings.startup)
		defer cancel()
		return startKernel(brief, s.ps, plan, to, log)
	}
	k, err := try()
	if errors.Is(err, errKernelPackage) {
		if err := s.packages.installKernel(ctx, lab); err != nil {
			return nil, err
		}
		k, err = try()
	}
	switch {
	case errors.Is(err, errKernelPackage):
		return nil, problemf(kindMissingTool, "ipykernel is missing in the environment of the lab %s, also after it was installed: "+
			"delete the environment with: agent-runtime env delete %s", lab, lab).because(err)
	case errors.Is(err, errKernelAddress):
		return nil, problemf(kindMissingTool, "The kernel did not start: its address was taken by another program in %d tries.", kernelStarts).because(err)
	}
	return k, err
}

func (s *kernelStarter) makeEnvironment(ctx context.Context, lab string, wish kernelWish) error {
	if s.envs.ready(lab) {
		return nil
	}
	if !wish.create {
		return noEnvironment(lab)
	}
	python := ""
	if wish.python != "" {
		var err error
		if python, err = s.envs.findPython(ctx, wish.python); err != nil {
			return err
		}
	}
	_, err := s.envs.create(ctx, lab, python)
	return err
}

// plan says how a kernel of a lab is started.
func (s *kernelStarter) plan(key labKey) (kernelPlan, error) {
	lab := key.lab
	dir, err := s.workingFolder(key.who, lab)
	if err != nil {
		return kernelPlan{}, err
	}
	env := childEnvironment(s.settings.environ, s.envs.path(lab))
	env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "JPY_") }) // a notebook's that this program was started from
	env = setVariable(env, "IPYTHONDIR", filepath.Join(s.settings.dir, "ipython"))
	transport := kernelTransport
	if s.settings.tcp {
		transport = "tcp"
	}
	return kernelPlan{
		python: s.envs.python(lab), dir: dir, environ: env,
		sockets: s.settings.sockets, transport: transport, force: s.settings.force,
		mark: familyPrefix(s.settings.dir) + "kernel-" + lab + "-" + rand.Text(),
	}, nil
}

// workingFolder is the lab's checkout, or a folder of its own where the lab
// was never prepared.
func (s *kernelStarter) workingFolder(who principal, lab string) (string, error) {
	if dir := s.settings.checkout(who, lab); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return "", problemf(kindConflict, "The folder of the lab %s is gone: prepare the lab again.", lab).because(err)
		}
		return dir, nil
	}
	dir := filepath.Join(s.settings.dir, "work", lab)
	return dir, os.MkdirAll(dir, 0o700)
}

// checkVersion refuses a version other than that of an environment that there is.
func (s *kernelStarter) checkVersion(lab, wanted string) error {
	if wanted == "" || !s.envs.ready(lab) {
		return nil
	}
	has := venvVersion(s.envs.path(lab))
	if has == "" || strings.HasPrefix(has+".", wanted+".") {
		return nil
	}
	return problemf(kindConflict, "The environment of the lab %s has Python %s, not %.20q: delete it with: agent-runtime env delete %s", lab, has, wanted, lab)
}

// sentence is what a person is told of an error.
func sentence(err error) string {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.detail
	}
	return "Something went wrong in the runtime."
}
