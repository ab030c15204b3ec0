package main

// The files by which a system starts the runtime when its person logs in: a
// unit of systemd and an agent of launchd. Neither confines the runtime. What
// the two offer for that would also change what labs may do and take away what
// bubblewrap needs, so an action would fail here that works in a terminal.

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// serviceName is the name of the service for the system.
const serviceName = "agent-runtime"

// serviceEnd is how long the runtime may take to end, besides the grace that
// actions get.
const serviceEnd = 30 * time.Second

// serviceSettings are what a service file is made of. The first three are
// held against serviceText.
type serviceSettings struct {
	program string // the absolute path of this program
	dir     string // the data folder
	path    string // PATH, on which git and Python are found
	grace   time.Duration
}

// serviceText reports whether s can stand in a service file of any system.
func serviceText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == utf8.RuneError || r > 0xFFFD && r <= 0xFFFF
	})
}

// servicePath is the part of path, a PATH, that a service can have: its
// absolute folders.
func servicePath(path, separator string) string {
	var kept []string
	for folder := range strings.SplitSeq(path, separator) {
		if filepath.IsAbs(folder) && serviceText(folder) {
			kept = append(kept, folder)
		}
	}
	return strings.Join(kept, separator)
}

// systemdUnit is given the quoted program, data folder and PATH, and the
// seconds in which the runtime must have ended.
const systemdUnit = `# Written by "agent-runtime service install", which renews it.

[Unit]
Description=agent-runtime lets course pages run approved things on this computer
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
ExecStart=%s serve
Environment=%s
Environment=%s
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
# The runtime ends in order what labs have started; what then is left is killed.
KillMode=mixed
TimeoutStopSec=%.0f
# A lab that uses up the memory does not end the runtime.
OOMPolicy=continue

[Install]
WantedBy=default.target
`

// systemdText is the unit for s. systemd takes no program whose path holds a
// quote or a backslash.
func systemdText(s serviceSettings) (string, error) {
	if strings.ContainsAny(s.program, `"'\`) {
		return "", problemf(kindUnacceptable, "systemd starts no program whose path holds a quote or a backslash; move %s elsewhere.", visible(s.program))
	}
	return fmt.Sprintf(systemdUnit, systemdQuote(s.program), systemdQuote("AGENT_RUNTIME_RUNTIME_DIR="+s.dir),
		systemdQuote("PATH="+s.path), (s.grace + serviceEnd).Seconds()), nil
}

// systemdQuote writes s as one word of a unit. A dollar sign means nothing in
// the two places where words are needed, the program and the environment.
func systemdQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s) + `"`
}

// launchdAgent is given the name, the program, the data folder, PATH, the
// seconds in which the runtime must have ended, and twice a file for what it
// says.
const launchdAgent = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by "agent-runtime service install", which renews it. -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>%s</string>
	<key>ProgramArguments</key>
	<array>
		<string>%s</string>
		<string>serve</string>
	</array>
	<key>EnvironmentVariables</key>
	<dict>
		<key>AGENT_RUNTIME_RUNTIME_DIR</key>
		<string>%s</string>
		<key>PATH</key>
		<string>%s</string>
	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ProcessType</key>
	<string>Interactive</string>
	<key>ExitTimeOut</key>
	<integer>%.0f</integer>
	<key>StandardOutPath</key>
	<string>%s</string>
	<key>StandardErrorPath</key>
	<string>%[6]s</string>
</dict>
</plist>
`

// launchdText is the agent for s, which writes what it says to the file log.
func launchdText(s serviceSettings, log string) string {
	return fmt.Sprintf(launchdAgent, serviceName, xmlText(s.program), xmlText(s.dir), xmlText(s.path), (s.grace + serviceEnd).Seconds(), xmlText(log))
}

func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
