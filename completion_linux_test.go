package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// completionLines are what a person types, with a tab where they ask for the
// rest, in a folder that holds `my lab` and a file `mine`, and the arguments
// that the command then gets, each after a bar, as a pattern.
var completionLines = []struct{ typed, want string }{
	{"doc\t", `\|doctor`},
	{"lab ch\t", `\|lab\|check`},
	{"lab check my\t", `\|lab\|check\|my lab/?`},
	{"lab run m\tsetup", `\|lab\|run\|my lab/setup`},
	{"lab run my mi\t", `\|lab\|run\|my\|mi`},
	{"approve m\t", `\|approve\|m`},
	{"token create x --sc\tsan\t", `\|token\|create\|x\|--scope[=|]sandbox`},
	{"token create --scope=act\t x", `\|token\|create\|--scope=actions\|x`},
	{"env create --python mi\t x", `\|env\|create\|--python\|mine\|x`},
	{"serve --port 0 --no\t", `\|serve\|--port\|0\|--no-pairing`},
	{"completion zs\t", `\|completion\|zsh`},
}

// completionFolder is a folder to type in, and the script of a shell.
func completionFolder(t *testing.T, shell string) (dir, script string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "my lab"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, filepath.Join(dir, "mine"), "")
	got := sayHere(t, programEnv(t.TempDir()), "completion", shell)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("completion %s: %+v", shell, got)
	}
	return dir, got.stdout
}

// typeInShell starts a shell in a terminal of its own and types the lines of
// completionLines. Its settings print the prompt READY and make agent-runtime
// print its arguments.
func typeInShell(t *testing.T, dir string, env []string, argv ...string) {
	t.Helper()
	master, slave := openPTY(t)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "TERM=dumb", "LC_ALL=C.UTF-8")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	screen := newConsole()
	go func() { _, _ = io.Copy(screen, master) }() // ends when the test closes the terminal
	_, end := screen.await(t, 0, `READY`)
	for _, line := range completionLines {
		if _, err := io.WriteString(master, "agent-runtime "+line.typed+"\r"); err != nil {
			t.Fatal(err)
		}
		got, next := screen.await(t, end, `(?s)\[got([^\]]*)\].*READY`)
		end = next
		if want := "^" + line.want + "$"; !regexp.MustCompile(want).MatchString(got[1]) {
			t.Errorf("%q gives %q, want %q", line.typed, got[1], line.want)
		}
	}
}

// printArguments is the function that a shell has in place of the program.
const printArguments = "agent-runtime() { printf '[got'; printf '|%s' \"$@\"; echo ']'; }\n"

func needsShell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("this test needs %s: sudo apt-get install %[1]s", name)
	}
	return path
}

func TestBashCompletesCommandsFlagsAndFolders(t *testing.T) {
	t.Parallel()
	bash := needsShell(t, "bash")
	dir, script := completionFolder(t, "bash")
	settings := filepath.Join(t.TempDir(), "rc")
	writeTestFile(t, settings, "PS1=READY\nbind 'set enable-bracketed-paste off'\n"+printArguments+script)
	typeInShell(t, dir, nil, bash, "--noprofile", "--rcfile", settings, "-i")
}

// A bash that cannot be told to quote names of files, as that of macOS, got
// them as they are: a folder whose name is a command would have run.
func TestOldBashQuotesNamesOfFiles(t *testing.T) {
	t.Parallel()
	bash := needsShell(t, "bash")
	_, script := completionFolder(t, "bash")
	for _, name := range []string{"$(touch x)", "`touch x`", ";touch x", "a b", `q'u"o`, "!!", "<in", "#h", "*"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), bash, "--noprofile", "--norc", "-c", script+`
			enable -n compopt
			COMP_WORDS=(agent-runtime lab init "") COMP_CWORD=3
			_agent_runtime
			printf '%s\n' "${COMPREPLY[@]}"
			eval "printf '%s' ${COMPREPLY[0]}"`)
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		if _, got, _ := strings.Cut(string(said), "\n"); err != nil || got != name {
			t.Errorf("the folder %q is offered as %q, %v", name, said, err)
		}
	}
}

func TestZshCompletesCommandsFlagsAndFolders(t *testing.T) {
	t.Parallel()
	zsh := needsShell(t, "zsh")
	dir, script := completionFolder(t, "zsh")
	for how, settings := range map[string]string{
		"in fpath": "fpath=($ZDOTDIR $fpath)\nautoload -Uz compinit\ncompinit -u -D\n",
		"read":     "autoload -Uz compinit\ncompinit -u -D\n. $ZDOTDIR/_agent-runtime\n",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			writeTestFile(t, filepath.Join(home, "_agent-runtime"), script)
			writeTestFile(t, filepath.Join(home, ".zshrc"), "PS1=READY\nunset zle_bracketed_paste\nzstyle ':completion:*' insert-tab false\n"+settings+printArguments)
			typeInShell(t, dir, []string{"ZDOTDIR=" + home, "HOME=" + home}, zsh, "-d", "-i")
		})
	}
}

func TestFishCompletesCommandsFlagsAndFolders(t *testing.T) {
	t.Parallel()
	fish := needsShell(t, "fish")
	dir, script := completionFolder(t, "fish")
	home := t.TempDir()
	writeTestFile(t, filepath.Join(home, "agent-runtime.fish"), script)
	for typed, want := range map[string]string{
		"doc": "doctor", "lab ch": "check", "lab check m": "my lab/", "lab run m": "my lab/", "lab run x m": "", "approve m": "", "serve ": "",
		"token create x --sc": "--scope", "token create x --scope s": "sandbox", "token create x --scope=s": "--scope=sandbox",
		"env create --python mi": "mine", "serve --no": "--no-pairing", "completion z": "zsh", "lab lab ch": "", "tok": "token",
	} {
		cmd := exec.CommandContext(t.Context(), fish, "--no-config", "-c", `source $argv[1]; complete -C "agent-runtime $argv[2]"`, filepath.Join(home, "agent-runtime.fish"), typed)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.CombinedOutput()
		got, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
		if err != nil || got != want || strings.Count(string(out), "\n") > 1 {
			t.Errorf("%q offers %q, %v; want %q", typed, out, err, want)
		}
	}
}

// TestSynopsesNameTheFlagsThatCommandsTake holds the table against the code
// that reads the flags.
func TestSynopsesNameTheFlagsThatCommandsTake(t *testing.T) {
	t.Parallel()
	c := &cli{environ: programEnv(t.TempDir())}
	for _, cmd := range commands() {
		if rest := strings.TrimSpace(argumentPattern.ReplaceAllString(cmd.args, "")); rest != "" {
			t.Errorf("the arguments %q of %s cannot be read: %q is left", cmd.args, cmd.name, rest)
		}
		err := cmd.run(context.Background(), c, []string{"--help"})
		if _, ok := err.(helpRequest); !ok {
			t.Errorf("%s --help: %v, want a request for help before anything is done", cmd.name, err)
		}
		meanings := cmd.meanings(t.Context(), c)
		for _, a := range cmd.flags() {
			if meanings[a.flag] == "" {
				t.Errorf("%s has no flag %s, or it says nothing of it", cmd.name, a.flag)
			}
			delete(meanings, a.flag)
		}
		if len(meanings) > 0 {
			t.Errorf("the table does not name these flags of %s: %v", cmd.name, meanings)
		}
	}
}

func TestHelpOfACommandTellsItsFlags(t *testing.T) {
	t.Parallel()
	got := sayHere(t, programEnv(t.TempDir()), "serve", "--port", "1", "--help")
	for _, want := range []string{"usage: agent-runtime serve [--host HOST]", "  --port PORT          port to listen on", "  --debug              log"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("serve --help has no %q:\n%s", want, got.stdout)
		}
	}
	if got := sayHere(t, programEnv(t.TempDir()), "completion", "tcsh"); got.code != exitUsage || !strings.Contains(got.stderr, "bash, zsh or fish") {
		t.Errorf("completion tcsh: %+v", got)
	}
}
