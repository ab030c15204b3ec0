package main

import (
	"slices"
	"testing"
)

func TestChildEnvironmentHoldsWhatALabNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		environ []string
		venv    string
		want    []string
	}{
		{"plain", []string{"HOME=/h", "PATH=/usr/bin"}, "/e/.venv", []string{
			"HOME=/h", "PIP_USER=0", "PATH=/e/.venv/bin:/usr/bin", "VIRTUAL_ENV=/e/.venv", "PYTHONUNBUFFERED=1",
			"FORCE_COLOR=1", "CLICOLOR_FORCE=1", "TERM=xterm-256color"}},
		{"without an environment", []string{"PATH=/usr/bin", "TERM=dumb", "NO_COLOR=1"}, "", []string{
			"PATH=/usr/bin", "NO_COLOR=1", "PIP_USER=0", "PYTHONUNBUFFERED=1", "TERM=xterm-256color"}},
		{"without a PATH", []string{"NO_COLOR=1", "TERM=screen"}, "/e", []string{
			"NO_COLOR=1", "TERM=screen", "PIP_USER=0", "PATH=/e/bin", "VIRTUAL_ENV=/e", "PYTHONUNBUFFERED=1"}},
		{"the person's own values", []string{"PATH=/b", "FORCE_COLOR=3", "CLICOLOR_FORCE=1", "TERM=xterm", "PYTHONUNBUFFERED="}, "/e", []string{
			"FORCE_COLOR=3", "CLICOLOR_FORCE=1", "TERM=xterm", "PYTHONUNBUFFERED=", "PIP_USER=0", "PATH=/e/bin:/b", "VIRTUAL_ENV=/e"}},
		{"colour switched off in another way", []string{"FORCE_COLOR=0", "TERM=x"}, "", []string{
			"FORCE_COLOR=0", "TERM=x", "PIP_USER=0", "PYTHONUNBUFFERED=1"}},
		{"an empty NO_COLOR says nothing", []string{"NO_COLOR=", "TERM=x"}, "", []string{
			"NO_COLOR=", "TERM=x", "PIP_USER=0", "PYTHONUNBUFFERED=1", "FORCE_COLOR=1", "CLICOLOR_FORCE=1"}},
		{"what leads a Python astray", []string{"PYTHONHOME=/x", "PYTHONPATH=/x", "PYTHONINSPECT=1", "VIRTUAL_ENV=/x", "__PYVENV_LAUNCHER__=/x",
			"PIP_TARGET=/x", "PIP_PREFIX=/x", "PIP_ROOT=/x", "PIP_USER=1", "PIP_INDEX_URL=https://i", "PIP_CERT=/c",
			"SSL_CERT_FILE=/c", "https_proxy=http://p", "TERM=x", "NO_COLOR=1"}, "", []string{
			"PIP_INDEX_URL=https://i", "PIP_CERT=/c", "SSL_CERT_FILE=/c", "https_proxy=http://p", "TERM=x", "NO_COLOR=1",
			"PIP_USER=0", "PYTHONUNBUFFERED=1"}},
		{"an active conda", []string{"CONDA_PREFIX=/c", "CONDA_DEFAULT_ENV=base", "_CE_CONDA=", "LD_LIBRARY_PATH=/c/lib", "TERM=x", "NO_COLOR=1"}, "", []string{
			"TERM=x", "NO_COLOR=1", "PIP_USER=0", "PYTHONUNBUFFERED=1"}},
		{"library paths without conda", []string{"LD_LIBRARY_PATH=/opt/lib", "TERM=x", "NO_COLOR=1"}, "", []string{
			"LD_LIBRARY_PATH=/opt/lib", "TERM=x", "NO_COLOR=1", "PIP_USER=0", "PYTHONUNBUFFERED=1"}},
		{"this program's secrets", []string{"AGENT_RUNTIME_TOKEN=secret", "AGENT_RUNTIME_PYTHON=/p", "AGENT=kept", "SHELL=/bin/zsh", "TERM=x", "NO_COLOR=1"}, "", []string{
			"AGENT=kept", "SHELL=/bin/zsh", "TERM=x", "NO_COLOR=1", "PIP_USER=0", "PYTHONUNBUFFERED=1"}},
	} {
		before := slices.Clone(c.environ)
		got := childEnvironment(c.environ, c.venv)
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: childEnvironment =\n%q, want\n%q", c.name, got, c.want)
		}
		if !slices.Equal(c.environ, before) {
			t.Errorf("%s: the program's own variables were changed to %q", c.name, c.environ)
		}
	}
}

func TestProgramIsToldOfItsFolder(t *testing.T) {
	t.Parallel()
	env := []string{"PWD=/started/here", "A=1", "OLDPWD=/before"}
	before := slices.Clone(env)
	if got, want := inFolder(env, "/lab"), []string{"A=1", "PWD=/lab"}; !slices.Equal(got, want) {
		t.Errorf("inFolder = %q, want %q", got, want)
	}
	if !slices.Equal(env, before) {
		t.Errorf("inFolder changed its argument to %q", env)
	}
}

func TestVariableIsTheLastOfItsName(t *testing.T) {
	t.Parallel()
	env := []string{"A=1", "B=2", "A=3", "=C:=C:\\", "odd"}
	if got, ok := variable(env, "A"); got != "3" || !ok {
		t.Errorf("variable(A) = %q, %v, want 3, true", got, ok)
	}
	if got, ok := variable(env, "D"); got != "" || ok {
		t.Errorf("variable(D) = %q, %v, want none", got, ok)
	}
	if got, want := setVariable(env, "A", "4"), []string{"B=2", "=C:=C:\\", "odd", "A=4"}; !slices.Equal(got, want) {
		t.Errorf("setVariable = %q, want %q", got, want)
	}
}
