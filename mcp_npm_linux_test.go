package main

// Agents through the public client of the Model Context Protocol, against a
// real runtime with a real lab, kernel and sandbox.

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// npmAgent is an agent in node that started the program for itself.
type npmAgent struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	tools []npmTool
}

type npmTool struct {
	Name        string
	Description string
	Annotations map[string]bool
	InputSchema struct {
		Properties           map[string]struct{ Description string }
		Required             []string
		AdditionalProperties *bool
	}
}

// npmAnswer is what a call gave.
type npmAnswer struct {
	Content []struct {
		Type, Text, Data, MIMEType string
	}
	IsError  bool
	Error    string // of the protocol, or that it was cancelled
	Code     int
	Progress []struct {
		Progress float64
		Message  string
	}
}

func (a npmAnswer) text() string {
	if len(a.Content) == 0 {
		return ""
	}
	return a.Content[0].Text
}

// npmAgent starts an agent with a token.
func (rt *testRuntime) npmAgent(t *testing.T, token string) *npmAgent {
	t.Helper()
	env := programEnv(rt.dir, "AGENT_RUNTIME_URL="+rt.addr, "AGENT_RUNTIME_TOKEN="+token)
	_, in, out := startPiped(t, env, "node", filepath.Join(npmFolder(t), "mcp.mjs"), os.Args[0], "mcp")
	a := &npmAgent{t: t, in: in, out: out}
	hello := hear[struct {
		Server       struct{ Name, Version string }
		Instructions string
		Tools        []npmTool
	}](a)
	if hello.Server.Name != "agent-runtime" || hello.Instructions == "" {
		t.Errorf("the server is %+v", hello)
	}
	a.tools = hello.Tools
	return a
}

// hear reads the agent's next line.
func hear[T any](a *npmAgent) T {
	a.t.Helper()
	line, err := a.out.ReadString('\n')
	if err != nil {
		a.t.Fatalf("the agent has ended: %v", err)
	}
	return asJSON[T](a.t, reply{body: []byte(line)})
}

// begin has the agent call a tool; hear reads what it gave.
func (a *npmAgent) begin(call map[string]any) {
	a.t.Helper()
	line, err := json.Marshal(call)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		a.t.Fatal(err)
	}
}

// call has the agent call a tool.
func (a *npmAgent) call(tool string, args map[string]any) npmAnswer {
	a.t.Helper()
	a.begin(map[string]any{"name": tool, "args": args})
	return hear[npmAnswer](a)
}

// want is call that must be done, and give the texts.
func (a *npmAgent) want(tool string, args map[string]any, texts ...string) npmAnswer {
	a.t.Helper()
	got := a.call(tool, args)
	if got.IsError || got.Error != "" || len(got.text()) > modelTextLimit {
		a.t.Fatalf("%s %v: %+v", tool, args, got)
	}
	for _, text := range texts {
		if !strings.Contains(got.text(), text) {
			a.t.Errorf("%s %v gave\n%s\nwant %q in it", tool, args, got.text(), text)
		}
	}
	return got
}

// refused is call that must fail, with the texts.
func (a *npmAgent) refused(tool string, args map[string]any, texts ...string) {
	a.t.Helper()
	got := a.call(tool, args)
	if !got.IsError {
		a.t.Errorf("%s %v: %+v, want it refused", tool, args, got)
	}
	for _, text := range texts {
		if !strings.Contains(got.text(), text) {
			a.t.Errorf("%s %v was refused with %q, want %q in it", tool, args, got.text(), text)
		}
	}
}

// value is a line "name: value" of an answer.
func (a npmAnswer) value(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `: (\S+)`).FindStringSubmatch(a.text())
	if found == nil {
		t.Fatalf("no %s in\n%s", name, a.text())
	}
	return found[1]
}

// agentRuntime starts a runtime with a git host, kernels and sandboxes.
func agentRuntime(t *testing.T, git *gitServer) *testRuntime {
	t.Helper()
	if err := exec.Command(kernelTestPython, "-c", "import ipykernel, matplotlib").Run(); err != nil {
		t.Skip("this test needs ipykernel and matplotlib: sudo apt-get install python3-ipykernel python3-matplotlib")
	}
	dir := filepath.Join(reachableFolder(t), "data")
	put(t, filepath.Join(dir, "config.toml"), "[environment]\nsystem_site_packages = true\n")
	rt := startRuntime(t, withDir(dir), withGit(git))
	if out, code := rt.command("learner", "add", adult, "--age", "30"); code != 0 {
		t.Fatal(out)
	}
	return rt
}

// newToken makes a token for a local program.
func (rt *testRuntime) newToken(name string, scope scope) string {
	rt.t.Helper()
	made := rt.program("token", "create", name, "--scope", string(scope))
	out, err := made.Output()
	if err != nil {
		rt.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

const agentNoise = `for i in range(5000): print("\x1b[32mline", i, "\x1b[0m")
for i in range(101): print(f"\r{i}%", end="", flush=True)
print()
raise SystemExit(3)
`

func TestAgentUsesEveryTool(t *testing.T) {
	t.Parallel()
	npmFolder(t)
	git := newGitServer(t)
	rt := agentRuntime(t, git)
	repo, commit := git.addRepo("agent.git", map[string]string{
		"lab.toml": labManifest(t, "agent", shellAction("greet", "echo hello"), testAction{name: "noise", steps: [][]string{{"python", "noise.py"}}}, shellAction("serve", "echo up; exec sleep 300")),
		"noise.py": agentNoise,
	})
	agent := rt.npmAgent(t, rt.newToken("all", scopeCode))
	checkTools(t, agent.tools)
	t.Run("labs", func(t *testing.T) { agent.t = t; agentUsesLabs(agent, rt, repo, commit) })
	t.Run("python", func(t *testing.T) { agent.t = t; agentUsesPython(agent) })
	t.Run("sandboxes", func(t *testing.T) { agent.t = t; agentUsesSandboxes(agent) })
	agent.t = t
	t.Run("a narrow scope", func(t *testing.T) {
		narrow := rt.npmAgent(t, rt.newToken("narrow", scopeActions))
		agentHasActionsAlone(narrow, rt, repo, commit)
	})
	if err := agent.in.Close(); err != nil {
		t.Fatal(err)
	}
	for _, fault := range hear[struct{ Faults []string }](agent).Faults {
		if !strings.Contains(fault, "unknown token") { // progress may cross with the end of the wish for it
			t.Errorf("the client met what it does not understand: %s", fault)
		}
	}
}

func checkTools(t *testing.T, tools []npmTool) {
	t.Helper()
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.InputSchema.AdditionalProperties == nil || *tool.InputSchema.AdditionalProperties || len(tool.Annotations) != 4 {
			t.Errorf("%+v", tool)
		}
		for name, property := range tool.InputSchema.Properties {
			if property.Description == "" {
				t.Errorf("%s does not describe %s", tool.Name, name)
			}
		}
	}
	want := []string{"list_labs", "prepare_lab", "run_action", "read_run", "stop_run", "run_python", "interrupt_kernel", "restart_kernel",
		"install_packages", "sandbox_create", "sandbox_exec", "sandbox_read", "sandbox_write", "sandbox_delete"}
	if !slices.Equal(names, want) {
		t.Errorf("tools are %q, want %q", names, want)
	}
}

func agentUsesLabs(a *npmAgent, rt *testRuntime, repo, commit string) {
	a.t.Helper()
	a.want("list_labs", nil, "No lab is prepared")
	from := rt.shown()
	a.begin(map[string]any{"name": "prepare_lab", "args": map[string]any{"repo": repo, "commit": commit}})
	if question := rt.answerNext(from, "y\n"); !strings.Contains(question, "local:all") {
		a.t.Errorf("the person was asked\n%s", question)
	}
	prepared := hear[npmAnswer](a)
	if prepared.IsError || !strings.Contains(prepared.text(), "- greet: Do greet") || len(prepared.Progress) == 0 || !strings.Contains(prepared.Progress[0].Message, "approvals") {
		a.t.Fatalf("prepare_lab: %+v", prepared)
	}
	a.want("list_labs", map[string]any{"lab_id": "agent"}, "lab_id: agent", "commit: "+commit, "$ python noise.py")
	action := func(name string, wait float64) map[string]any {
		return map[string]any{"lab_id": "agent", "commit": commit, "action": name, "wait_s": wait}
	}
	a.want("run_action", action("greet", 60), "status: succeeded", "exit_code: 0", "\nhello\n")

	noise := a.want("run_action", action("noise", 60), "status: failed", "exit_code: 3", "line 0 \n", "\n100%\n[exit 3", "read_run with run_id")
	if strings.Contains(noise.text(), "\x1b") || strings.Contains(noise.text(), "99%") {
		a.t.Errorf("not the last state of what was shown:\n%s", noise.text())
	}
	readEveryLine(a, noise)

	up := a.want("run_action", action("serve", 0), "status: running", "goes on: read_run")
	id := map[string]any{"run_id": up.value(a.t, "run_id")}
	for late := time.Now().Add(patience); !strings.Contains(a.want("read_run", id, "status: running").text(), "up\n"); {
		if time.Now().After(late) {
			a.t.Fatal("the action did not begin")
		}
	}
	a.begin(map[string]any{"name": "read_run", "args": map[string]any{"run_id": id["run_id"], "wait_s": 300}, "cancel": true})
	if got := hear[npmAnswer](a); !strings.Contains(got.Error, "no longer wanted") || len(got.Progress) == 0 {
		a.t.Errorf("a call that was cancelled: %+v", got)
	}
	a.want("read_run", id, "status: running")
	a.refused("run_action", action("greet", 0), "running", "Its run_id is "+up.value(a.t, "run_id"), "stop_run")
	a.want("list_labs", nil, "- run_id: "+up.value(a.t, "run_id")+", lab_id: agent, action: serve, status: running")
	a.want("list_labs", map[string]any{"lab_id": "other"}, "No lab of this id", "without lab_id")
	a.want("stop_run", id, "status: stopped", "[stopped")
	a.refused("read_run", map[string]any{"run_id": "nothing"}, "list_labs lists the last ones")
	a.refused("run_action", action("nothing", 0), "greet")
	a.refused("run_action", map[string]any{"lab_id": "agent", "commit": commit, "action": "greet", "wait": 3}, `"wait"`, "wait_s")
	a.refused("prepare_lab", map[string]any{"repo": "http://a.example/b", "commit": commit}, "https")
	if got := a.call("run_nothing", nil); got.Code != rpcInvalidParams || !strings.Contains(got.Error, "tools/list") {
		a.t.Errorf("an unknown tool: %+v", got)
	}
}

// readEveryLine reads on where the answers say, and must see every line.
func readEveryLine(a *npmAgent, first npmAnswer) {
	a.t.Helper()
	next := regexp.MustCompile(`read_run with run_id (\S+) and offset (\d+) reads on`)
	var head strings.Builder
	for got := first; ; {
		_, text, _ := strings.Cut(got.text(), "output:\n")
		found := next.FindStringSubmatchIndex(text)
		if found == nil {
			head.WriteString(text)
			break
		}
		head.WriteString(text[:strings.LastIndex(text[:found[0]], "\n[")])
		var offset int
		if _, err := fmt.Sscan(text[found[4]:found[5]], &offset); err != nil {
			a.t.Fatal(err)
		}
		got = a.want("read_run", map[string]any{"run_id": text[found[2]:found[3]], "offset": offset})
	}
	for i := range 5000 {
		if !strings.Contains(head.String(), fmt.Sprintf("line %d \n", i)) {
			a.t.Fatalf("line %d was not to be read", i)
		}
	}
}

func agentUsesPython(a *npmAgent) {
	a.t.Helper()
	code := func(code string) map[string]any {
		return map[string]any{"lab_id": "agent", "code": code, "wait_s": 120}
	}
	a.want("run_python", code("x = 20\nprint('\\x1b[31mred\\x1b[0m')\nx + 1"), "status: succeeded", "red\n21\n")
	a.want("run_python", code("x + 22"), "42")
	failed := a.want("run_python", code("def f(): raise KeyError('k')\nf()"), "status: failed", "KeyError: 'k'", "in f")
	if strings.Contains(failed.text(), "\x1b") {
		a.t.Errorf("the traceback has colours: %q", failed.text())
	}
	picture := a.want("run_python", code("import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"), "[picture 1: image/png")
	if len(picture.Content) != 2 || picture.Content[1].Type != "image" || picture.Content[1].MIMEType != "image/png" {
		a.t.Errorf("a picture: %.300q", fmt.Sprint(picture.Content))
	} else if png, err := base64.StdEncoding.DecodeString(picture.Content[1].Data); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		a.t.Errorf("not a picture: %v", err)
	}
	long := a.want("run_python", code("print('a' * 30000)\nprint('the end')"), "the end\n", "left out")
	cell := map[string]any{"lab_id": "agent", "cell_id": long.value(a.t, "cell_id"), "offset": 29_990}
	a.want("run_python", cell, "output:\naaaaaaaaaa\nthe end\n")

	const tidy = "import time\ntry:\n  print('begun', flush=True)\n  time.sleep(300)\nfinally: time.sleep(2)" // leaves slower than the runtime waits
	slow := a.want("run_python", map[string]any{"lab_id": "agent", "code": tidy, "wait_s": 6}, "status: running", "interrupt_kernel")
	late := a.call("run_python", map[string]any{"lab_id": "agent", "code": "x = 1", "wait_s": 1})
	if late.IsError && !strings.Contains(late.text(), "Nothing of the code has run") {
		a.t.Errorf("code that did not get its turn: %+v", late)
	}
	a.want("interrupt_kernel", map[string]any{"lab_id": "agent"}, "variables are kept")
	a.want("run_python", map[string]any{"lab_id": "agent", "cell_id": slow.value(a.t, "cell_id"), "wait_s": 60}, "status: failed", "begun\n", "KeyboardInterrupt")
	a.want("run_python", code("x"), "20")
	a.want("restart_kernel", map[string]any{"lab_id": "agent"}, "no variables")
	a.want("run_python", code("x"), "NameError")
	a.want("install_packages", map[string]any{"lab_id": "agent", "packages": []string{makeWheel(a.t)}}, "Installed: ")
	a.refused("install_packages", map[string]any{"lab_id": "agent", "packages": []string{"no-such-package-anywhere"}}, "no-such-package-anywhere")
	a.refused("run_python", map[string]any{"lab_id": "agent"}, `"code"`, `"cell_id"`)
	a.refused("run_python", map[string]any{"lab_id": "agent", "cell_id": "nothing"}, "not kept")
	a.refused("interrupt_kernel", map[string]any{"lab_id": "other"}, "kernel")
}

func agentUsesSandboxes(a *npmAgent) {
	a.t.Helper()
	made := a.want("sandbox_create", map[string]any{"learner_id": adult}, "/workspace")
	box := func(more map[string]any) map[string]any {
		args := map[string]any{"sandbox_id": made.value(a.t, "sandbox_id")}
		maps.Copy(args, more)
		return args
	}
	a.refused("sandbox_create", map[string]any{"learner_id": adult}, "- sandbox_id: "+made.value(a.t, "sandbox_id")+", learner_id: "+adult, "sandbox_delete")
	a.want("sandbox_read", box(nil), "no files")
	a.want("sandbox_write", box(map[string]any{"path": "/workspace/a dir/x#?.py", "content": "print('from the file')\r\n"}), "Written: a dir/x#?.py")
	a.want("sandbox_exec", box(map[string]any{"cmd": []string{"python3", "a dir/x#?.py"}}), "exit_code: 0", "stdout:\nfrom the file\n")
	a.want("sandbox_exec", box(map[string]any{"cmd": []string{"sh", "-c", "echo no >&2; exit 4"}}), "exit_code: 4", "stderr:\nno\n")
	a.want("sandbox_exec", box(map[string]any{"cmd": []string{"sleep", "60"}, "timeout_s": 0.3}), "exit_code: 124", "limit of time")
	a.want("sandbox_exec", box(map[string]any{"cmd": []string{"python3", "-c", "print('x' * 50000)"}}), "left out", "sandbox_read")
	if got := a.want("sandbox_read", box(map[string]any{"path": "a dir/x#?.py"})); got.text() != "print('from the file')\r\n" {
		a.t.Errorf("the file is read as %q", got.text())
	}
	a.want("sandbox_read", box(nil), "a dir/\n", "a dir/x#?.py\n")
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	a.want("sandbox_write", box(map[string]any{"path": "dot.png", "content": png, "encoding": "base64"}))
	if got := a.want("sandbox_read", box(map[string]any{"path": "dot.png"}), "image/png"); len(got.Content) != 2 || got.Content[1].Data != png {
		a.t.Errorf("the picture is read as %+v", got.Content)
	}
	a.want("sandbox_write", box(map[string]any{"path": "bytes", "content": "/wD/AA==", "encoding": "base64"}))
	a.want("sandbox_read", box(map[string]any{"path": "bytes"}), "4 bytes that are no text")
	a.refused("sandbox_read", box(map[string]any{"path": "../state.json"}), "..")
	a.refused("sandbox_read", box(map[string]any{"path": "nothing"}), "nothing")
	a.refused("sandbox_exec", box(map[string]any{"cmd": "ls"}), `"cmd"`, "list of strings")
	a.refused("sandbox_create", map[string]any{"learner_id": "stranger"}, "learner")
	a.want("sandbox_delete", box(nil), "ended")
	a.refused("sandbox_exec", box(map[string]any{"cmd": []string{"ls"}}), "sandbox")
}

// agentHasActionsAlone is an agent that may start approved actions and nothing
// else.
func agentHasActionsAlone(a *npmAgent, rt *testRuntime, repo, commit string) {
	a.t.Helper()
	greet := map[string]any{"lab_id": "agent", "commit": commit, "action": "greet", "wait_s": 60}
	a.want("list_labs", nil, "No lab is prepared")
	a.refused("run_action", greet, "not approved for local:narrow", "call prepare_lab")
	for _, answer := range []string{"n\n", "y\n"} {
		from := rt.shown()
		a.begin(map[string]any{"name": "prepare_lab", "args": map[string]any{"repo": repo, "commit": commit}})
		rt.answerNext(from, answer)
		got := hear[npmAnswer](a)
		if no := answer == "n\n"; got.IsError != no || strings.Contains(got.text(), "declined in the terminal") != no {
			a.t.Fatalf("prepare_lab after %q: %+v", answer, got)
		}
	}
	a.want("run_action", greet, "status: succeeded", "\nhello\n")
	for tool, args := range map[string]map[string]any{
		"run_python":       {"lab_id": "agent", "code": "1"},
		"interrupt_kernel": {"lab_id": "agent"}, "restart_kernel": {"lab_id": "agent"},
		"install_packages": {"lab_id": "agent", "packages": []string{"pandas"}},
	} {
		a.refused(tool, args, `scope "code"`, "agent-runtime token revoke narrow", "agent-runtime token create narrow --scope code")
	}
	a.refused("sandbox_create", map[string]any{"learner_id": adult}, `scope "sandbox"`, "agent-runtime token create narrow --scope code")
}
