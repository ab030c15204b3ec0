package main

import (
	"os"
	"testing"
)

// playProgram, when set, makes the test binary be the program itself, so that
// tests drive the real thing.
const playProgram = "TEST_BINARY_IS_AGENT_RUNTIME"

// fakeKernelVariable makes the test binary a kernel that does what a real one
// will not do on demand. Its value says how it starts; what it does with a
// cell, the cell's code says.
const fakeKernelVariable = "TEST_FAKE_KERNEL"

// stateWriterVariable makes the test binary a program that changes the state
// in the folder that it names.
const stateWriterVariable = "STATE_TEST_DIR"

// terminalVariable says which part of the terminal's tests to play.
const terminalVariable = "TERMINAL_TEST_ROLE"

// memberVariable makes the test binary a member of a family, on Windows.
const memberVariable = "FAMILY_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(playProgram) != "" {
		_ = os.Unsetenv(playProgram)
		main()
	}
	if played, status := playSender(os.Args[1:]); played {
		os.Exit(status)
	}
	if playHelper() {
		os.Exit(0)
	}
	closeOnExec()
	os.Exit(m.Run())
}

// playHelper makes the test binary be one of the programs that tests need
// besides, when its variable is set, and reports whether it was one.
func playHelper() bool {
	if how := os.Getenv(fakeKernelVariable); how != "" {
		playFakeKernel(how)
		return true
	}
	if dir := os.Getenv(stateWriterVariable); dir != "" {
		playStateWriter(dir)
		return true
	}
	return playTerminal(os.Getenv(terminalVariable)) || playMember(os.Getenv(memberVariable))
}
