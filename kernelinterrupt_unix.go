//go:build unix

package main

import "os/exec"

// kernelTransport is how a kernel is reached: by sockets that only this
// account can open, where the system's Python has them.
const kernelTransport = "ipc"

// kernelInterrupt is how a kernel is told to leave its cell: as Ctrl-C would,
// by a signal to its group.
type kernelInterrupt struct{}

func newKernelInterrupt(*exec.Cmd) (kernelInterrupt, error) { return kernelInterrupt{}, nil }

func (kernelInterrupt) send(p *process) { p.interrupt() }

func (kernelInterrupt) close() {}
