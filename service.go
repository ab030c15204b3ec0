package main

// The service: the runtime started by the system when its person logs in.

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// service is how one system keeps the runtime going: a file, and programs that
// make the system heed it.
type service struct {
	settings serviceSettings
	manager  string // who starts it, in words
	file     string
	text     string // what the file should hold
	log      string // the command that shows what the runtime says

	reach   []string // succeeds when the manager answers for this account
	start   []serviceStep
	stop    []serviceStep // before the file is removed; may fail when the service does not run
	forget  []serviceStep // after that
	running []string      // writes mark when the service runs
	mark    string
}

// serviceStep is a program that changes something.
type serviceStep struct {
	argv    []string
	tries   int  // one a second; 0 is one
	mayFail bool // when there may be nothing to do
}

// systemdService is the service in systemd, whose files are in configHome.
func systemdService(configHome string, s serviceSettings) (*service, error) {
	const unit = serviceName + ".service"
	text, err := systemdText(s)
	if err != nil {
		return nil, err
	}
	systemctl := func(args ...string) []string { return append([]string{"systemctl", "--user"}, args...) }
	reload := serviceStep{argv: systemctl("daemon-reload")}
	return &service{
		settings: s, manager: "systemd", text: text,
		file:    filepath.Join(configHome, "systemd", "user", unit),
		log:     "journalctl --user --unit " + serviceName,
		reach:   systemctl("show", "--property=Version"),
		start:   []serviceStep{reload, {argv: systemctl("enable", unit)}, {argv: systemctl("reset-failed", unit), mayFail: true}, {argv: systemctl("restart", unit)}},
		stop:    []serviceStep{{argv: systemctl("disable", "--now", unit)}},
		forget:  []serviceStep{reload},
		running: systemctl("show", "--property=ActiveState", unit), mark: "ActiveState=active",
	}, nil
}

// launchdService is the service in launchd, for the account uid whose home
// folder is home.
func launchdService(home string, uid int, s serviceSettings) *service {
	domain := "gui/" + strconv.Itoa(uid)
	target := domain + "/" + serviceName
	file := filepath.Join(home, "Library", "LaunchAgents", serviceName+".plist")
	log := filepath.Join(home, "Library", "Logs", serviceName+".log")
	launchctl := func(args ...string) []string { return append([]string{"launchctl"}, args...) }
	bootout := launchctl("bootout", target)
	return &service{
		settings: s, manager: "launchd", file: file, text: launchdText(s, log), log: shellQuote([]string{"tail", "-f", log}),
		reach: launchctl("print", domain),
		// A service that is being ended may not be started for a moment.
		start:   []serviceStep{{argv: bootout, mayFail: true}, {argv: launchctl("enable", target)}, {argv: launchctl("bootstrap", domain, file), tries: 10}},
		stop:    []serviceStep{{argv: bootout}},
		running: launchctl("print", target), mark: "state = running",
	}
}

// serviceHere is the service of this system and account. home may be empty
// when the home folder is not known.
func serviceHere(getenv func(string) string, home string, settings serviceSettings) (*service, error) {
	s, err := platformService(getenv, home, settings)
	if err == nil && s == nil {
		err = problemf(kindUnacceptable, "This system has no service to install; on Windows, to start agent-runtime at login, "+
			"put a shortcut to agent-runtime serve into the folder that opens with Win+R and shell:startup.")
	}
	return s, err
}

// serviceTool runs a program of the system, found on the PATH in env.
func serviceTool(ctx context.Context, ps *processes, env, argv []string) (string, error) {
	program, err := lookPath(argv[0], env)
	if err != nil {
		return "", err
	}
	return runTool(ctx, ps, "", env, append([]string{program}, argv[1:]...))
}

// reachable is nil when the manager can be spoken to.
func (s *service) reachable(ctx context.Context, ps *processes, env []string) error {
	_, err := serviceTool(ctx, ps, env, s.reach)
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return problemf(kindMissingTool, "%s was not found on PATH; where there is no %s, have the system start agent-runtime serve in its own way.", s.reach[0], s.manager)
	}
	return problemf(kindUnacceptable, "%s does not answer for this account (%s); log in as this account itself, not by su or sudo, and try again there.", s.manager, saidBy(err)).because(err)
}

// carryOut runs steps until one fails that must not.
func carryOut(ctx context.Context, ps *processes, env []string, steps []serviceStep) error {
	for _, step := range steps {
		_, err := serviceTool(ctx, ps, env, step.argv)
		for try := 1; err != nil && try < step.tries; try++ {
			if ended := pauseFor(ctx, time.Second); ended != nil {
				return ended
			}
			_, err = serviceTool(ctx, ps, env, step.argv)
		}
		if err != nil && !step.mayFail {
			return problemf(kindUnacceptable, "%s did not succeed; %s.", visible(shellQuote(step.argv)), saidBy(err)).because(err)
		}
	}
	return nil
}

// install writes the file and starts the service, anew if it runs.
func (s *service) install(ctx context.Context, ps *processes, env []string) error {
	if err := s.reachable(ctx, ps, env); err != nil {
		return err
	}
	err := os.MkdirAll(filepath.Dir(s.file), 0o755)
	if err == nil {
		err = writeAtomic(s.file, []byte(s.text), 0o644)
	}
	if err != nil {
		return problemf(kindUnacceptable, "%s cannot be written.", visible(s.file)).because(err)
	}
	return carryOut(ctx, ps, env, s.start)
}

// uninstall stops the service and removes its file. It returns false when
// there was none.
func (s *service) uninstall(ctx context.Context, ps *processes, env []string) (bool, error) {
	if _, err := os.Lstat(s.file); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := s.reachable(ctx, ps, env); err != nil {
		return false, err
	}
	if err := carryOut(ctx, ps, env, s.stop); err != nil && s.runs(ctx, ps, env) {
		return false, err
	}
	if err := os.Remove(s.file); err != nil {
		return false, problemf(kindUnacceptable, "%s cannot be removed.", visible(s.file)).because(err)
	}
	return true, carryOut(ctx, ps, env, s.forget)
}

// runs reports whether the system says that the service is running.
func (s *service) runs(ctx context.Context, ps *processes, env []string) bool {
	said, err := serviceTool(ctx, ps, env, s.running)
	return err == nil && strings.Contains(said, s.mark)
}

// installed returns what the service's file holds; false when there is none.
func (s *service) installed() (string, bool, error) {
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, problemf(kindUnacceptable, "%s cannot be read.", visible(s.file)).because(err)
	}
	return string(data), true, nil
}

// lastingProgram refuses a program that will not be there at the next login:
// one in the folder for temporary files, and what go run makes.
func lastingProgram(program, temporary string) error {
	if _, err := os.Stat(program); err != nil {
		return problemf(kindUnacceptable, "This program is not at %s any more; start the one that took its place.", visible(program)).because(err)
	}
	built := strings.Contains(program, string(filepath.Separator)+"go-build")
	inside, err := filepath.Rel(withoutLinks(temporary), withoutLinks(program))
	if built || err == nil && filepath.IsLocal(inside) {
		return problemf(kindUnacceptable, "%s is a temporary file, which would be gone at the next login; put agent-runtime into a folder that stays, and run it from there.", visible(program))
	}
	return nil
}

// withoutLinks is path with its links followed; path itself when it is not there.
func withoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// usualPath is for a service that is installed where there is no PATH.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// serviceSettingsOf are the settings for a service of this program, with the
// configuration and the PATH that it has here.
func serviceSettingsOf(cfg config, program string, environ []string) (serviceSettings, error) {
	path, _ := variable(environ, "PATH")
	s := serviceSettings{program: program, dir: cfg.dir, path: cmp.Or(servicePath(path, string(listSeparator)), usualPath), grace: cfg.stopGrace}
	for _, text := range []string{s.program, s.dir} {
		if !serviceText(text) {
			return s, problemf(kindUnacceptable, "The path %s cannot be written into a service file; choose one of plain text.", visible(text))
		}
	}
	return s, nil
}
