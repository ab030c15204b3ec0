package main

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestServiceFilesStandWhereTheSystemLooks(t *testing.T) {
	t.Parallel()
	settings := serviceSettings{program: "/opt/agent-runtime", dir: "/data", path: "/usr/bin"}
	unit, err := systemdService(filepath.FromSlash("/home/ada/.config"), settings)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		unit.file: "/home/ada/.config/systemd/user/agent-runtime.service",
		launchdService(filepath.FromSlash("/Users/ada"), 501, settings).file: "/Users/ada/Library/LaunchAgents/agent-runtime.plist",
	} {
		if filepath.ToSlash(got) != want {
			t.Errorf("the file is %s, want %s", got, want)
		}
	}
}

// systemdWord reads a quoted word as systemd does: escapes first, then
// specifiers.
func systemdWord(s string) (string, bool) {
	inner, ok := strings.CutPrefix(s, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"' || c < ' ':
			return "", false
		case c == '\\' || c == '%':
			i++
			if i == len(inner) || c == '%' && inner[i] != '%' || c == '\\' && inner[i] != '\\' && inner[i] != '"' {
				return "", false
			}
			b.WriteByte(inner[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ok && closed
}

func FuzzServiceFiles(f *testing.F) {
	f.Add("/opt/agent runtime/x", "/data/%h\"\\", "/a:/b$c")
	f.Add("/é", "/<&>", "/]]>'")
	f.Add("/\ufffe", "/\x7f", "/\xff")
	f.Fuzz(func(t *testing.T, program, dir, path string) {
		if !serviceText(program) || !serviceText(dir) || !serviceText(path) {
			return
		}
		s := serviceSettings{program: program, dir: dir, path: path}
		if text, err := systemdText(s); err == nil {
			lines := strings.Split(text, "\n")
			for _, want := range []struct{ before, word, after string }{
				{"ExecStart=", program, " serve"}, {"Environment=", "AGENT_RUNTIME_RUNTIME_DIR=" + dir, ""}, {"Environment=", "PATH=" + path, ""},
			} {
				if !slices.ContainsFunc(lines, func(line string) bool {
					got, ok := systemdWord(strings.TrimSuffix(strings.TrimPrefix(line, want.before), want.after))
					return ok && got == want.word
				}) {
					t.Errorf("the unit does not say %q:\n%s", want.word, text)
				}
			}
			if len(lines) != strings.Count(systemdUnit, "\n")+1 {
				t.Errorf("the unit of %+v has other lines", s)
			}
		}
		if got := plistStrings(t, launchdText(s, dir)); !slices.Equal(got, []string{serviceName, program, "serve", dir, path, "Interactive", dir, dir}) {
			t.Errorf("the agent holds %q", got)
		}
	})
}

// plistStrings are the contents of the elements <string> of a property list.
func plistStrings(t *testing.T, text string) []string {
	t.Helper()
	var all []string
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "string" {
			var s string
			if err := d.DecodeElement(&s, &start); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
	}
}
