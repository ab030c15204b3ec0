package main

import (
	"os"
	"runtime"
	"syscall"
)

// sandboxTools is what this machine has for making sandboxes.
type sandboxTools struct {
	ps              *processes
	bwrap           string // absolute
	filter          []byte
	system          []systemFolder
	runtimes        []string // further folders to read
	countsNamespace bool     // the kernel counts processes by user namespace
	owner           *owner   // who runs commands; nil for our own user
	newest          *newestFirst
	making          chan struct{} // holds a token for each sandbox that is made or waits for a core
	cores           chan struct{} // holds a token for each command that runs
}

// viewPoints are folders that every system has, and that every user may pass
// through. One of them is covered in a private view.
var viewPoints = []string{"/mnt", "/tmp"}

// withView runs do on a thread that stays the same until do returns, and tells
// it where that thread sees the folder of a sandbox. Processes that do starts
// see it there too.
//
// Where commands run as another user than ours, that user may not pass through
// the data folder, nor the home folder of root. The thread then gets a view of
// the file system of its own, in which the sandbox's folder covers a folder
// that is open to all. Nobody else sees that, and it ends with the thread.
func (t *sandboxTools) withView(folder string, do func(seen string) error) (err error) {
	if t.owner == nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return do(folder)
	}
	onOwnThread(func() {
		var seen string
		if seen, err = cover(folder); err == nil {
			err = do(seen)
		}
	})
	return err
}

// onOwnThread runs do on a thread that ends with it. That is never the first
// thread, which stands for the whole program.
func onOwnThread(do func()) {
	done := make(chan struct{})
	go func() { // ends with do, and its thread with it, since it is not unlocked
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			onOwnThread(do)
			runtime.UnlockOSThread()
			return
		}
		do()
	}()
	<-done
}

// cover gives the calling thread its own view, with folder in the place of one
// of viewPoints, and returns which.
func cover(folder string) (seen string, err error) {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return "", faultView(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return "", faultView(err)
	}
	for _, seen := range viewPoints {
		if err = syscall.Mount(folder, seen, "", syscall.MS_BIND, ""); err == nil {
			return seen, nil
		}
	}
	return "", faultView(err)
}
