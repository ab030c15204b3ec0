//go:build !linux

package main

import "context"

// isolator refuses: this system has no way of isolating a command well enough.
type isolator struct{ fault *isolationFault }

func newIsolator(*processes, string, sandboxConfig) *isolator { return &isolator{faultPlatform()} }

func (i *isolator) check(context.Context) *isolationFault { return i.fault }

func (i *isolator) run(context.Context, sandboxCommand) (result sandboxResult, err error) {
	if i.fault != nil {
		err = i.fault.problem()
	}
	return result, err
}

// owner is the user that commands run as where that is not our own.
func (*isolator) owner() *owner { return nil }

func faultPlatform() *isolationFault {
	return &isolationFault{"platform", "they need Linux", "Use Linux, or WSL 2 on Windows"}
}
