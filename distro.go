package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// packageManager is how people of some distributions install a package, and
// what they call it where the name is not Debian's.
type packageManager struct {
	ids     []string // as ID or ID_LIKE in os-release
	install string   // what stands before the package's name
	names   map[string]string
}

// packageManagers is looked through in order for the distribution's own id
// first, and then for each id it says it is like.
var packageManagers = []packageManager{
	{ids: []string{"debian", "ubuntu"}, install: "sudo apt-get install"},
	{ids: []string{"fedora", "rhel", "centos", "amzn"}, install: "sudo dnf install",
		names: map[string]string{"python3-venv": "python3 python3-pip"}},
	{ids: []string{"arch"}, install: "sudo pacman -S",
		names: map[string]string{"python3": "python", "python3-venv": "python"}},
	{ids: []string{"alpine"}, install: "sudo apk add",
		names: map[string]string{"python3-venv": "python3 py3-pip"}},
	{ids: []string{"suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "sles"}, install: "sudo zypper install",
		names: map[string]string{"python3-venv": "python3 python3-pip"}},
}

// linuxHint says how to install pkg, by its Debian name, on the distribution
// that osRelease (the text of os-release) describes.
func linuxHint(osRelease, pkg string) string {
	for _, id := range distributionIDs(osRelease) {
		for _, m := range packageManagers {
			if slices.Contains(m.ids, id) {
				return m.install + " " + m.name(pkg)
			}
		}
	}
	return fmt.Sprintf("install %s with your system's package manager", cmp.Or(genericNames[pkg], pkg))
}

// genericNames are what a package is called where no distribution is known.
var genericNames = map[string]string{"python3-venv": "Python's venv and ensurepip modules"}

// name is what this manager calls a package. A version in the name, as in
// python3.12-venv, only matters where it is looked up under Debian's name.
func (m packageManager) name(pkg string) string {
	if m.names == nil {
		return pkg
	}
	if strings.HasPrefix(pkg, "python3.") && strings.HasSuffix(pkg, "-venv") {
		pkg = "python3-venv"
	}
	return cmp.Or(m.names[pkg], pkg)
}

// distributionIDs returns the values of ID and ID_LIKE in that order.
func distributionIDs(osRelease string) []string {
	var own, like []string
	for line := range strings.Lines(osRelease) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.ToLower(strings.Trim(value, `"'`))
		switch key {
		case "ID":
			own = strings.Fields(value)
		case "ID_LIKE":
			like = strings.Fields(value)
		}
	}
	return append(own, like...)
}
