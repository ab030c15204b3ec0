package main

// What git's words mean. Git tells its failures in English sentences alone,
// kept English by LC_ALL=C; they decide whether trying again can help and
// which sentence the person reads.

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	gitWordsKept   = 8 << 10 // bytes kept of the end of what git says
	gitWordsTold   = 300     // characters told to a person
	gitWordsAtMost = 3       // lines told to a person
)

// gitFault is why git failed.
type gitFault int

const (
	faultOther    gitFault = iota // nothing that another try would change
	faultNetwork                  // the connection or the host failed: another try may help
	faultSlow                     // the host was slower than the floor
	faultFull                     // the disk or the quota is used up
	faultHidden                   // the host gives only tips of branches and tags
	faultNoCommit                 // the repository has no such object
	faultRedirect                 // the host points somewhere else
	faultPrivate                  // the host wants to know who asks
)

// gitFaults is searched from the top: the first phrase that git's words hold
// decides.
var gitFaults = []struct {
	phrase string // in lower case
	fault  gitFault
}{
	{"no space left on device", faultFull},
	{"not enough space on the disk", faultFull},
	{"out of disk", faultFull},
	{"disk quota exceeded", faultFull},
	{"out of diskspace", faultFull},
	{"unable to write file", faultFull}, // git gives no reason for this one
	{"does not allow request for unadvertised object", faultHidden},
	{"not our ref", faultNoCommit},
	{"couldn't find remote ref", faultNoCommit},
	{"operation too slow", faultSlow},
	{"operation timed out", faultSlow},
	{"unable to update url base from redirection", faultRedirect},
	{"returned error: 30", faultRedirect},
	{"returned error: 408", faultNetwork},
	{"returned error: 429", faultNetwork},
	{"returned error: 5", faultNetwork},
	{"http 408", faultNetwork},
	{"http 429", faultNetwork},
	{"http 5", faultNetwork},
	{"returned error: 4", faultOther},
	{" certificate ", faultOther},
	{"could not read username", faultPrivate},
	{"could not read password", faultPrivate},
	{"authentication failed for", faultPrivate},
	{"could not resolve", faultNetwork},
	{"couldn't resolve", faultNetwork},
	{"failed to connect", faultNetwork},
	{"couldn't connect", faultNetwork},
	{"connection refused", faultNetwork},
	{"connection reset", faultNetwork},
	{"connection timed out", faultNetwork},
	{"connection was reset", faultNetwork},
	{"empty reply from server", faultNetwork},
	{"rpc failed", faultNetwork},
	{"early eof", faultNetwork},
	{"hung up unexpectedly", faultNetwork},
	{"unexpected disconnect", faultNetwork},
	{"unexpected eof", faultNetwork},
	{"premature end of pack", faultNetwork},
	{"bad pack header", faultNetwork},
	{"invalid index-pack output", faultNetwork},
	{"index-pack failed", faultNetwork},
	{"tls connection", faultNetwork},
	{"ssl_connect", faultNetwork},
	{"ssl_read", faultNetwork},
	{"gnutls_handshake", faultNetwork},
	{"recv failure", faultNetwork},
	{"send failure", faultNetwork},
	{"transfer closed", faultNetwork},
}

// gitError is a failed git command.
type gitError struct {
	command string // its first word: fetch
	words   string // the end of what it said, as it said it
	fault   gitFault
	err     error // how the process ended
}

func newGitError(command, words string, err error) *gitError {
	return &gitError{command: command, words: words, err: err, fault: faultOf(words)}
}

// faultOf leaves out what the host says, which git shows after "remote: ".
func faultOf(words string) gitFault {
	var own strings.Builder
	for line := range strings.Lines(strings.ToLower(words)) {
		if !strings.HasPrefix(line, "remote: ") {
			own.WriteString(line)
		}
	}
	for _, known := range gitFaults {
		if strings.Contains(own.String(), known.phrase) {
			return known.fault
		}
	}
	return faultOther
}

func (e *gitError) Error() string {
	return "git " + e.command + ": " + e.err.Error() + ": " + tellWords(e.words)
}

func (e *gitError) Unwrap() error { return e.err }

// hasFault reports whether err is, or wraps, a git failure of this kind.
func hasFault(err error, fault gitFault) bool {
	e, ok := errors.AsType[*gitError](err)
	return ok && e.fault == fault
}

var userInfo = regexp.MustCompile(`://[^/@\s]*@`)

// tellWords makes the last lines of git's words fit to be told: one short
// line, without secrets, safe for a terminal. A name and password before a
// host can only be those of the person's proxy.
func tellWords(words string) string {
	var lines []string
	for line := range strings.Lines(words) {
		_, line = cutLast(strings.TrimRight(line, "\r\n"), '\r')
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > gitWordsAtMost {
		lines = lines[len(lines)-gitWordsAtMost:]
	}
	told := []rune(visible(userInfo.ReplaceAllString(strings.Join(lines, "; "), "://***@")))
	if len(told) == 0 {
		return "nothing"
	}
	if len(told) > gitWordsTold {
		return "..." + string(told[len(told)-gitWordsTold:])
	}
	return string(told)
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct{ kept []byte }

func (w *tailWriter) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	if over := len(w.kept) - gitWordsKept; over > 0 {
		w.kept = append(w.kept[:0], w.kept[over:]...)
	}
	return len(p), nil
}

func (w *tailWriter) String() string { return string(w.kept) }

// errDamagedLab says that a checkout's repository is not whole, or not ours: it
// has to be fetched again.
var errDamagedLab = errors.New("the lab's copy is damaged")

// tellLastTry is tellGitError for when no further try is made.
func tellLastTry(err error, src source, tries int) error {
	if errors.Is(err, errDamagedLab) {
		return problemf(kindUnreachable, "What the host of %s sent for commit %s was not whole (%d tries): try again later.",
			src.repo, src.commit, tries).because(err)
	}
	return tellGitError(err, src, tries)
}

// tellGitError turns a failure of git that a person can do something about
// into a problem. Other errors stay as they are, nil too.
func tellGitError(err error, src source, tries int) error {
	if _, told := errors.AsType[*problem](err); told {
		return err
	}
	if diskFull(err) || hasFault(err, faultFull) {
		return problemf(kindFull, "There is not enough room on the disk for this lab: free some and open it again.").because(err)
	}
	e, ok := errors.AsType[*gitError](err)
	if !ok {
		return err
	}
	switch {
	case e.fault == faultSlow && e.command == "fetch":
		return problemf(kindTooSlow, "git took too long to get the lab from %s: the host does not answer or is very slow, so try again later.", src.repo).because(err)
	case e.fault == faultSlow:
		return problemf(kindTooSlow, "git took too long with the lab's copy on this computer (git %s): try again later.", e.command).because(err)
	case e.command != "fetch":
		return err
	}
	return tellFetchError(e, src, tries)
}

// tellFetchError tells what the host, or the way to it, did wrong.
func tellFetchError(e *gitError, src source, tries int) error {
	counted := fmt.Sprintf("%d tries", tries)
	if tries == 1 {
		counted = "1 try"
	}
	switch e.fault {
	case faultHidden:
		return problemf(kindUnreachable, "The host of %s gives out only commits that a branch or a tag points to, and %s is not one of them: the page's author must name such a commit or put a tag on this one.",
			src.repo, src.commit).because(e)
	case faultPrivate:
		return problemf(kindUnreachable, "%s does not exist or is not open to everyone, and a lab must be (%s): git said: %s", src.repo, counted, tellWords(e.words)).because(e)
	case faultNoCommit:
		return problemf(kindUnreachable, "%s has no commit %s (%s): git said: %s", src.repo, src.commit, counted, tellWords(e.words)).because(e)
	}
	return problemf(kindUnreachable, "git could not fetch the lab from %s (%s): git said: %s", src.repo, counted, tellWords(e.words)).because(e)
}
