package main

import (
	"crypto/rand"
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	pipeInbound       = 0x00000001
	pipeFirstInstance = 0x00080000
	pipeRejectRemote  = 0x00000008
	pipeInstances     = 1
	pipeBuffer        = 64 << 10 // bytes
)

// newOutputPipe returns a pipe for what a child writes. The reading end can be
// given a deadline, and be closed while it is read: only a pipe with a name
// can be read like that here. Nobody else can come in between, since there is
// no second instance, and the one there is has its writer when this returns.
func newOutputPipe() (output, input *os.File, err error) {
	path := `\\.\pipe\agent-runtime-` + rand.Text()
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, nil, err
	}
	r, _, err := syscall.NewLazyDLL("kernel32.dll").NewProc("CreateNamedPipeW").Call(uintptr(unsafe.Pointer(name)),
		pipeInbound|pipeFirstInstance|syscall.FILE_FLAG_OVERLAPPED, pipeRejectRemote, pipeInstances, pipeBuffer, pipeBuffer, 0, 0)
	reader := syscall.Handle(r)
	if reader == syscall.InvalidHandle {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	writer, err := syscall.CreateFile(name, syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_EXISTING, 0, 0)
	if err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("CreateFile", err), syscall.CloseHandle(reader))
	}
	return os.NewFile(r, path), os.NewFile(uintptr(writer), path), nil
}
