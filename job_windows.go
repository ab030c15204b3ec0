package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	jobKillOnClose      = 0x00002000
	jobMembers          = 3
	jobExtendedLimits   = 9
	processQueryLimited = 0x1000
	killedExitCode      = 137
)

// jobListed is how many members of a job are looked at.
const jobListed = 512

// job is a set of processes that holds every descendant of its members: none
// can leave it.
type job struct{ handle syscall.Handle }

// newJob returns a job without members. With killOnClose they end when the
// job is closed, which this program's own end does as well.
func newJob(killOnClose bool) (job, error) {
	handle, err := kernel32("CreateJobObjectW", 0, 0)
	if err != nil || !killOnClose {
		return job{syscall.Handle(handle)}, err
	}
	// JOBOBJECT_EXTENDED_LIMIT_INFORMATION; only the flags are set.
	var limits struct {
		times      [2]int64
		flags      uint32
		sizes      [2]uintptr
		active     uint32
		affinity   uintptr
		priorities [2]uint32
		io         [6]uint64
		memory     [4]uintptr
	}
	limits.flags = jobKillOnClose
	j := job{syscall.Handle(handle)}
	_, err = kernel32("SetInformationJobObject", handle, jobExtendedLimits,
		uintptr(unsafe.Pointer(&limits)), unsafe.Sizeof(limits))
	if err != nil {
		j.close()
	}
	return j, err
}

// add makes p a member. A process may be in several jobs when each was added
// to after the one that is to be around it.
func (j job) add(p *os.Process) error {
	var err error
	gone := p.WithHandle(func(handle uintptr) {
		_, err = kernel32("AssignProcessToJobObject", uintptr(j.handle), handle)
	})
	return errors.Join(gone, err)
}

// members lists the living members, but for those beyond jobListed.
func (j job) members() []uintptr {
	var list struct { // JOBOBJECT_BASIC_PROCESS_ID_LIST
		all, listed uint32
		ids         [jobListed]uintptr
	}
	// This fails when there are more, and has filled the list all the same.
	_, _ = kernel32("QueryInformationJobObject", uintptr(j.handle), jobMembers,
		uintptr(unsafe.Pointer(&list)), unsafe.Sizeof(list), 0)
	return list.ids[:min(list.listed, jobListed)]
}

// alive counts the living members that somebody started. The hosts of their
// consoles come from the system, and end after them.
func (j job) alive() int {
	count := 0
	for _, id := range j.members() {
		if !isConsoleHost(id) {
			count++
		}
	}
	return count
}

// kill ends all members and returns how many there were.
func (j job) kill() int {
	n := len(j.members())
	if n > 0 {
		_, _ = kernel32("TerminateJobObject", uintptr(j.handle), killedExitCode)
	}
	return n
}

func (j job) close() { _ = syscall.CloseHandle(j.handle) }

func isConsoleHost(id uintptr) bool {
	h, err := syscall.OpenProcess(processQueryLimited, false, uint32(id))
	if err != nil {
		return false
	}
	defer syscall.CloseHandle(h)
	name := make([]uint16, syscall.MAX_LONG_PATH)
	length := uint32(len(name))
	_, err = kernel32("QueryFullProcessImageNameW", uintptr(h), 0,
		uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&length)))
	return err == nil && strings.EqualFold(filepath.Base(syscall.UTF16ToString(name[:length])), "conhost.exe")
}

// letRun lets p, which was started suspended, begin. The function has no page
// in the system's documentation; the documented way looks through all threads
// of the machine for the one that p has.
func letRun(p *os.Process) error {
	var status uintptr
	gone := p.WithHandle(func(handle uintptr) {
		status, _, _ = syscall.NewLazyDLL("ntdll.dll").NewProc("NtResumeProcess").Call(handle)
	})
	if gone == nil && status != 0 {
		return os.NewSyscallError("NtResumeProcess", syscall.Errno(status))
	}
	return gone
}
