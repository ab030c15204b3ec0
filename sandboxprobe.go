package main

import (
	"fmt"
	"strings"
)

// isolationFault is why this machine cannot isolate commands. A nil one means
// that it can.
type isolationFault struct {
	reason string // one word for programs
	cause  string // completes "Sandboxes cannot run on this computer: ..."
	hint   string // the smallest step that mends it, as an order
}

func (f *isolationFault) Error() string { return f.reason + ": " + f.cause }

// problem is the fault as whoever asked for a sandbox is told it.
func (f *isolationFault) problem() *problem {
	p := problemf(kindNoCapacity, "Sandboxes cannot run on this computer: %s. %s.", f.cause, f.hint)
	p.members = map[string]string{"reason": f.reason, "hint": f.hint}
	return p
}

// reasonBusy is a cause that passes by itself.
const reasonBusy = "busy"

// faultTexts tell causes by what bubblewrap prints. They choose the words
// alone: that isolation failed is known from its status.
var faultTexts = []struct {
	text               string
	reason, cause, fix string
}{
	{"max_*_namespaces exceeded", "userns_off", "this system allows no more user namespaces",
		"Allow them: sudo sysctl user.max_user_namespaces=10000"},
	{"No space left on device", "userns_off", "this system allows no more user namespaces",
		"Allow them: sudo sysctl user.max_user_namespaces=10000"},
	{"No permissions to create", "userns_denied", "user namespaces are not allowed here",
		"Run the runtime on the host, or allow user namespaces in the container"},
	{"Creating new namespace failed: Resource temporarily unavailable", reasonBusy, "too many processes are running",
		"Close some programs and ask again"},
	{"Creating new namespace failed: Operation not permitted", "userns_denied", "user namespaces are not allowed here",
		"Run the runtime as an ordinary user, or allow user namespaces in the container"},
	{"setting up uid map: Operation not permitted", "userns_denied", "user namespaces are not allowed here",
		"Run the runtime as an ordinary user, or allow user namespaces in the container"},
	{"setting up uid map: Permission denied", "apparmor", "AppArmor keeps programs from making user namespaces",
		appArmorFix},
	{"Failed RTM_NEWADDR", "net_setup", "a private network cannot be set up here",
		appArmorFix},
	{"Can't mount proc", "proc_masked", "a private /proc cannot be mounted in this container",
		"Run the runtime on the host, or in a container whose /proc is not masked"},
	{"Unknown option", "bwrap_old", "bubblewrap is too old", "Install bubblewrap 0.8 or newer"},
	{"Can't find source path", "internal", "a folder that the sandbox needs cannot be reached",
		"Check that the data folder and /usr can be read"},
}

const appArmorFix = "Let bubblewrap make them: write an AppArmor profile for /usr/bin/bwrap with the line \"userns,\""

// printedFault tells the cause from what a failed bubblewrap printed.
func printedFault(printed string) *isolationFault {
	for _, known := range faultTexts {
		if strings.Contains(printed, known.text) {
			return &isolationFault{known.reason, known.cause, known.fix}
		}
	}
	printed = visible(strings.TrimSpace(printed))
	const most = 300
	if len(printed) > most {
		printed = strings.ToValidUTF8(printed[:most], "")
	}
	if printed == "" {
		printed = "it said nothing"
	}
	return &isolationFault{"other", fmt.Sprintf("bubblewrap failed (%s)", printed),
		"Run agent-runtime doctor, which tries it again"}
}
