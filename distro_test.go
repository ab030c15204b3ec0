package main

import (
	"strings"
	"testing"
)

func TestInstallHintFitsTheDistribution(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, release, pkg, want string }{
		{"debian", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", "python3-venv", "sudo apt-get install python3-venv"},
		{"debian version", "ID=debian\n", "python3.12-venv", "sudo apt-get install python3.12-venv"},
		{"derived from ubuntu", "ID=pop\nID_LIKE=\"ubuntu debian\"\n", "git", "sudo apt-get install git"},
		{"fedora", "ID=fedora\n", "python3.12-venv", "sudo dnf install python3 python3-pip"},
		{"like rhel", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "bubblewrap", "sudo dnf install bubblewrap"},
		{"arch", "ID=arch\n", "python3-venv", "sudo pacman -S python"},
		{"alpine", "ID=alpine\n", "python3-venv", "sudo apk add python3 py3-pip"},
		{"opensuse", "ID='opensuse-tumbleweed'\nID_LIKE='opensuse suse'\n", "git", "sudo zypper install git"},
		{"unknown", "ID=plan9\n", "git", "install git with your system's package manager"},
		{"nothing", "", "python3-venv", "install Python's venv and ensurepip modules with your system's package manager"},
		{"damaged", "=\n\x00ID\nID=\n", "git", "install git with your system's package manager"},
	} {
		if got := linuxHint(c.release, c.pkg); got != c.want {
			t.Errorf("%s: linuxHint(%q) = %q, want %q", c.name, c.pkg, got, c.want)
		}
	}
	if got := installHint("git"); !strings.Contains(strings.ToLower(got), "git") && !strings.Contains(got, "xcode") {
		t.Errorf("installHint(git) = %q, want git named", got)
	}
}
