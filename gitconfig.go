package main

// What git is started with. It gets an environment made from a list, an empty
// home of its own, and settings on its command line that win over every
// configuration file. So no hook, helper, filter, template or rewriting rule
// of the user or of the repository has a say, and nothing is asked. Only the
// user's proxy and certificate settings pass.

import (
	"os"
	"path/filepath"
	"strings"
)

// gitPassed are the variables that reach git. Proxies are named in either
// case; on Windows the case of a name does not matter.
var gitPassed = []string{
	"PATH", "TMPDIR", "TMP", "TEMP",
	"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
	"GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"CURL_CA_BUNDLE", "NIX_SSL_CERT_FILE",
	"DEVELOPER_DIR", // where macOS keeps the real git
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES",
}

// gitUserConfig are the variables that say where the user's own settings are.
// Only the command that reads the proxy and certificate settings gets them.
var gitUserConfig = []string{
	"HOME", "XDG_CONFIG_HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
}

// gitUserKeys are the user's settings that are kept, as git writes their names.
var gitUserKeys = map[string]string{
	"http.proxy":                "proxy",
	"http.proxyauthmethod":      "proxyAuthMethod",
	"http.proxysslcainfo":       "proxySSLCAInfo",
	"http.sslcainfo":            "sslCAInfo",
	"http.sslcapath":            "sslCAPath",
	"http.sslbackend":           "sslBackend",
	"http.schannelcheckrevoke":  "schannelCheckRevoke",
	"http.schannelusesslcainfo": "schannelUseSSLCAInfo",
}

// gitSettings stand on every command line.
//
// Git's own check of objects (transfer.fsckObjects) stays off: it refuses
// commits of old repositories for a badly written date or author, and what it
// could tell about names is checked here anyway, before the checkout. A pack
// is kept as one file (fetch.unpackLimit), so that its checksum covers all.
var gitSettings = []string{
	"core.hooksPath=" + os.DevNull,
	"core.attributesFile=" + os.DevNull,
	"core.excludesFile=" + os.DevNull,
	"core.fsmonitor=false",
	"core.untrackedCache=false",
	"core.sparseCheckout=false",
	"core.pager=cat",
	"core.editor=false",
	"core.sshCommand=false",
	"core.askPass=",
	"core.autocrlf=false",
	"core.eol=lf",
	"core.protectHFS=true",
	"core.protectNTFS=true",
	"core.longPaths=true",
	"core.commitGraph=false",
	"credential.helper=",
	"credential.interactive=false",
	"init.templateDir=",
	"init.defaultBranch=lab",
	"http.followRedirects=false",
	"http.version=HTTP/1.1",
	"http.lowSpeedLimit=1000",
	"http.lowSpeedTime=30",
	"http.sslVerify=true",
	"http.emptyAuth=false",
	"protocol.allow=never",
	"protocol.https.allow=always",
	"protocol.version=2",
	"submodule.recurse=false",
	"fetch.recurseSubmodules=false",
	"fetch.fsckObjects=false",
	"transfer.fsckObjects=false",
	"fetch.unpackLimit=1",
	"fetch.writeCommitGraph=false",
	"gc.auto=0",
	"maintenance.auto=false",
	"checkout.workers=0", // one for each processor
	"advice.detachedHead=false",
}

// gitAttributes stands in a checkout's own attributes file, which wins over
// those that the commit brings. Files are written as they are in the commit,
// for us and for the person's own git in that folder later on.
const gitAttributes = "* -text -ident !crlf !eol !filter !working-tree-encoding\n"

// gitArguments is the command line for a git command after the program.
func gitArguments(args ...string) []string {
	line := make([]string, 0, 2*len(gitSettings)+len(args))
	for _, setting := range gitSettings {
		line = append(line, "-c", setting)
	}
	return append(line, args...)
}

// gitEnvironment is the environment of a git command, made from that of this
// program. The folder home holds nothing, or a .gitconfig made by
// writeGitConfig; protocols is what git may speak.
func gitEnvironment(environ []string, home, protocols string) []string {
	config := filepath.Join(home, ".gitconfig")
	return append(pickVariables(environ, gitPassed),
		"HOME="+home,
		"USERPROFILE="+home,
		"XDG_CONFIG_HOME="+filepath.Join(home, "xdg"),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_CONFIG_GLOBAL="+config,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_ALLOW_PROTOCOL="+protocols,
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=",
		"SSH_ASKPASS=",
		"GCM_INTERACTIVE=never",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_LFS_SKIP_SMUDGE=1",
		"GIT_PAGER=cat",
		"GIT_EDITOR=false",
		"LC_ALL=C",
	)
}

// gitUserEnvironment is the environment of the command that reads the user's
// settings. It runs in folder, above which git looks for no repository.
func gitUserEnvironment(environ []string, folder string) []string {
	return append(pickVariables(environ, append(gitPassed[:len(gitPassed):len(gitPassed)], gitUserConfig...)),
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(folder),
		"GIT_TERMINAL_PROMPT=0",
		"GIT_PAGER=cat",
		"LC_ALL=C",
	)
}

// pickVariables returns the entries of environ that have one of the names.
func pickVariables(environ, names []string) []string {
	var picked []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		for _, known := range names {
			if name == known || plainDisk && strings.EqualFold(name, known) {
				picked = append(picked, entry)
				break
			}
		}
	}
	return picked
}

// userGitConfig turns what `git config -z --get-urlmatch http URL` wrote into
// a configuration file with the kept settings. A path under the user's home
// is written out, since git gets another home.
func userGitConfig(listing, home string) string {
	var b strings.Builder
	for entry := range strings.SplitSeq(listing, "\x00") {
		key, value, hasValue := strings.Cut(entry, "\n")
		name, kept := gitUserKeys[key]
		if !kept || !hasValue {
			continue
		}
		if rest, ok := strings.CutPrefix(value, "~/"); ok && home != "" {
			value = filepath.Join(home, filepath.FromSlash(rest))
		}
		b.WriteString("\t" + name + " = " + quoteGitConfig(value) + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "[http]\n" + b.String()
}

// quoteGitConfig quotes a value for a configuration file.
func quoteGitConfig(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

// homeFolder is the user's home as git sees it.
func homeFolder(environ []string) string {
	home := ""
	for _, entry := range pickVariables(environ, []string{"HOME", "USERPROFILE"}) {
		name, value, _ := strings.Cut(entry, "=")
		if home == "" || strings.EqualFold(name, "HOME") {
			home = value
		}
	}
	return home
}
