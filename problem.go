package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// kind says what sort of failure a problem is. The web rank alone turns it
// into a status; a doer never thinks in HTTP.
type kind int

const (
	kindInternal        kind = iota // our own fault: logged whole, told as one fixed sentence
	kindUnacceptable                // a source, manifest or origin that may not be used
	kindUnauthenticated             // nobody has said who is asking
	kindForbidden                   // known, and not allowed
	kindNotFound                    // no such thing, or another site's
	kindMethod                      // a method that the path does not take
	kindConflict                    // cannot be done in the present state
	kindExpired                     // was not answered in time
	kindTooLarge                    // above a stated size
	kindNotJSON                     // a body that is not JSON
	kindMisdirected                 // a Host that is not ours
	kindInvalid                     // does not fit its schema
	kindTooMany                     // a rate or count is used up
	kindMissingTool                 // a local program is missing or unusable
	kindUnreachable                 // a remote did not give what was asked
	kindNoCapacity                  // nothing free to do it with, or shutting down
	kindTooSlow                     // a remote took too long
	kindSlowBody                    // a client that sends too slowly
	kindFull                        // a quota or the disk is used up
)

// problem is an error that a person is told about. Its detail is one sentence
// that says what is wrong and what would be right; it never holds a token or
// the text of an inner error, which is for the log alone.
type problem struct {
	kind       kind
	detail     string
	err        error             // cause, for the log; may be nil
	retryAfter time.Duration     // when asking again can help; 0 says nothing
	members    map[string]string // further members of the error body; may be nil
}

func problemf(k kind, format string, args ...any) *problem {
	return &problem{kind: k, detail: fmt.Sprintf(format, args...)}
}

// because keeps err as the cause and returns p.
func (p *problem) because(err error) *problem {
	p.err = err
	return p
}

// after says when asking again can help and returns p.
func (p *problem) after(d time.Duration) *problem {
	p.retryAfter = d
	return p
}

func (p *problem) Error() string {
	if p.err == nil {
		return p.detail
	}
	return strings.TrimSuffix(p.detail, ".") + ": " + p.err.Error()
}

func (p *problem) Unwrap() error { return p.err }

// isKind reports whether err is, or wraps, a problem of kind k.
func isKind(err error, k kind) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && p.kind == k
}
