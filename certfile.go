package main

// Where the certificate for https is kept: one file with its key, in a folder
// that only we enter.

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	certificateFolder = "tls"
	certificateFile   = "loopback.pem"
	certificateLock   = "lock"
	certificateLimit  = 64 << 10 // bytes; ours have less than 2000

	// certificateWait is how long a change waits for another one, which takes
	// some milliseconds.
	certificateWait = 10 * time.Second
)

// errNoCertificate says that the data folder has none.
var errNoCertificate = errors.New("there is no certificate")

func certificatePath(dir string) string {
	return filepath.Join(dir, certificateFolder, certificateFile)
}

// openCertificate reads the certificate of the data folder dir, whatever its
// time. Without one the error is errNoCertificate; any other completes the
// sentence that it cannot be used. One whose key others could read comes with
// the error: whoever believed it must do so no longer.
func openCertificate(dir string) (*tls.Certificate, error) {
	path := certificatePath(dir)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoCertificate
	}
	if err != nil {
		return nil, errors.New("its file cannot be looked at")
	}
	owner, ours := ownership(path, info)
	switch {
	case !info.Mode().IsRegular() || info.Size() > certificateLimit:
		return nil, errors.New("its file is not one that agent-runtime wrote")
	case !ours:
		return nil, errors.New("its file belongs to " + owner)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("its file cannot be read")
	}
	pair, err := readCertificate(text)
	if err == nil && openToOthers(info) {
		err = errors.New("other accounts of this computer could read its key")
	}
	return pair, err
}

// usableCertificate is openCertificate for one that can be used at a time.
func usableCertificate(dir string, now time.Time) (*tls.Certificate, error) {
	pair, err := openCertificate(dir)
	if err == nil {
		err = checkDates(pair.Leaf, now)
	}
	if err != nil {
		return nil, err
	}
	return pair, nil
}

// certificateSetup is what became of the certificate when it was set up.
type certificateSetup struct {
	pair *tls.Certificate
	old  *tls.Certificate // that pair took the place of; nil when none could be read
	why  error            // why there is a new one; nil when the one there stays
}

// setUpCertificate sees to it that the data folder dir has a certificate that
// can be used for some time to come.
func setUpCertificate(dir string, now time.Time) (certificateSetup, error) {
	var s certificateSetup
	unlock, err := lockCertificate(dir)
	if err != nil {
		return s, err
	}
	defer unlock()
	path := certificatePath(dir)
	s.old, s.why = openCertificate(dir)
	if s.why == nil {
		s.why = checkDates(s.old.Leaf, now)
	}
	if s.why == nil && s.old.Leaf.NotAfter.Sub(now) < certificateRenewal {
		s.why = errors.New("it ends on " + dayOf(s.old.Leaf.NotAfter))
	}
	if s.why == nil {
		return certificateSetup{pair: s.old}, nil
	}
	text, err := newCertificate(now)
	if err != nil {
		return s, err
	}
	if s.pair, err = readCertificate(text); err != nil {
		return s, err
	}
	if err := writeAtomic(path, text, 0o600); err != nil {
		return s, problemf(kindInternal, "The certificate %s cannot be written.", path).because(err)
	}
	return s, nil
}

// removeCertificate removes the certificate of the data folder dir, and
// returns it where it could be read. Without one the error is
// errNoCertificate.
func removeCertificate(dir string) (*tls.Certificate, error) {
	path := certificatePath(dir)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, errNoCertificate
	}
	unlock, err := lockCertificate(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, _ := openCertificate(dir) // one that is damaged goes, too
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoCertificate // another process removed it
	}
	if err != nil {
		return nil, problemf(kindInternal, "The certificate %s cannot be removed.", path).because(err)
	}
	return old, nil
}

// lockCertificate makes the folder of the certificate, takes the lock of who
// changes it, and removes what a killed one left.
func lockCertificate(dir string) (unlock func(), err error) {
	folder := filepath.Join(dir, certificateFolder)
	if err := makePrivateFolder(folder); err != nil {
		return nil, err
	}
	unlock, err = lockFile(filepath.Join(folder, certificateLock), certificateWait)
	if errors.Is(err, errLocked) {
		return nil, problemf(kindConflict, "Another agent-runtime has been changing the certificate in %s for %s: end it and try again.",
			folder, certificateWait).because(err)
	}
	if err != nil {
		return nil, problemf(kindInternal, "The folder %s cannot be used for a certificate.", folder).because(err)
	}
	if err := removeUnfinished(certificatePath(dir)); err != nil {
		unlock()
		return nil, problemf(kindInternal, "An unfinished certificate in %s cannot be removed.", folder).because(err)
	}
	return unlock, nil
}

// servedCertificate is the certificate that a running runtime shows. It is
// read anew for every connection: one that was renewed counts at once, and
// one that ended or is gone is not shown any more.
type servedCertificate struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex // guards fault
	fault string     // why it could not be shown the last time; "" when it could
}

func (s *servedCertificate) load() (*tls.Certificate, error) {
	pair, err := usableCertificate(s.dir, time.Now())
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	s.mu.Lock()
	changed := fault != s.fault
	s.fault = fault
	s.mu.Unlock()
	switch {
	case changed && err != nil:
		s.log.Warn("https is not served; agent-runtime tls setup makes a new certificate", "reason", fault)
	case changed:
		s.log.Info("https is served again", "until", dayOf(pair.Leaf.NotAfter))
	}
	return pair, err
}

// config is for connections that show the certificate. Earlier ones are not
// taken up again: they would go on with one that has ended.
func (s *servedCertificate) config() *tls.Config {
	return &tls.Config{
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.load() },
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
	}
}
