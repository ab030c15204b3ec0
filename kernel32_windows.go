package main

import "syscall"

// kernel32 calls a function of the system's main library that returns 0 when
// it fails. Pointers among args stay valid until it returns.
//
//go:uintptrescapes
func kernel32(name string, args ...uintptr) (uintptr, error) {
	r, _, err := syscall.NewLazyDLL("kernel32.dll").NewProc(name).Call(args...)
	if r == 0 {
		return 0, err
	}
	return r, nil
}
