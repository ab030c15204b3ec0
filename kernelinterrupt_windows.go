package main

import (
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"
)

// kernelTransport is how a kernel is reached.
const kernelTransport = "tcp"

// kernelInterrupt is an event that a kernel waits for in order to leave its
// cell: a Ctrl-C cannot be sent to a process without a console.
type kernelInterrupt struct{ event syscall.Handle }

func newKernelInterrupt(cmd *exec.Cmd) (kernelInterrupt, error) {
	inheritable := syscall.SecurityAttributes{InheritHandle: 1}
	inheritable.Length = uint32(unsafe.Sizeof(inheritable))
	event, err := kernel32("CreateEventW", uintptr(unsafe.Pointer(&inheritable)), 0, 0, 0)
	if err != nil {
		return kernelInterrupt{}, err
	}
	number := strconv.FormatUint(uint64(event), 10)
	cmd.Env = append(cmd.Env, "JPY_INTERRUPT_EVENT="+number, "IPY_INTERRUPT_EVENT="+number)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.AdditionalInheritedHandles = append(cmd.SysProcAttr.AdditionalInheritedHandles, syscall.Handle(event))
	return kernelInterrupt{syscall.Handle(event)}, nil
}

func (i kernelInterrupt) send(*process) { _, _ = kernel32("SetEvent", uintptr(i.event)) }

func (i kernelInterrupt) close() { _ = syscall.CloseHandle(i.event) }
