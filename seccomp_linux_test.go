package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// judge runs a filter's program on one system call, as the kernel would.
func judge(t *testing.T, program []byte, arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], number)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, arg := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], arg)
	}
	accumulator := uint32(0)
	for at := 0; ; at++ {
		step := program[8*at:]
		k := binary.LittleEndian.Uint32(step[4:])
		holds := false
		switch code := binary.LittleEndian.Uint16(step); code {
		case bpfLoad:
			accumulator = binary.LittleEndian.Uint32(data[k:])
			continue
		case bpfRet:
			return k
		case bpfEq:
			holds = accumulator == k
		case bpfGe:
			holds = accumulator >= k
		case bpfSet:
			holds = accumulator&k != 0
		default:
			t.Fatalf("instruction %d has the code %#x", at, code)
		}
		if holds {
			at += int(step[2])
		} else {
			at += int(step[3])
		}
	}
}

func TestFilterAnswersEachCall(t *testing.T) {
	t.Parallel()
	const eperm, enosys, family = seccompErrno | denyEPERM, seccompErrno | denyENOSYS, seccompErrno | denyFamily
	amd64, arm64 := machines["amd64"].arch, machines["arm64"].arch
	for _, c := range []struct {
		name   string
		goarch string
		arch   uint32
		number uint32
		args   []uint64
		want   uint32
	}{
		{"read", "amd64", amd64, 0, nil, seccompAllow},
		{"read", "arm64", arm64, 63, nil, seccompAllow},
		{"a 32-bit program", "amd64", 0x40000003, 0, nil, seccompKill},
		{"a 32-bit program", "arm64", 0x40000028, 0, nil, seccompKill},
		{"x32", "amd64", amd64, 0x40000000, nil, enosys},
		{"x32 mount", "amd64", amd64, 0x40000000 + 165, nil, enosys},
		{"mount", "amd64", amd64, 165, nil, eperm},
		{"mount", "arm64", arm64, 40, nil, eperm},
		{"clone3", "amd64", amd64, 435, nil, enosys},
		{"io_uring", "arm64", arm64, 425, nil, enosys},
		{"fork", "amd64", amd64, 56, []uint64{17}, seccompAllow},
		{"thread", "amd64", amd64, 56, []uint64{0x3d0f00}, seccompAllow},
		{"new user namespace", "amd64", amd64, 56, []uint64{0x10000000 | 17}, eperm},
		{"new time namespace", "arm64", arm64, 220, []uint64{0x80}, eperm},
		{"local socket", "amd64", amd64, 41, []uint64{1}, seccompAllow},
		{"internet socket", "amd64", amd64, 41, []uint64{2}, seccompAllow},
		{"internet 6 socket", "arm64", arm64, 198, []uint64{10}, seccompAllow},
		{"netlink socket", "amd64", amd64, 41, []uint64{16}, family},
		{"vsock socket", "arm64", arm64, 198, []uint64{40}, family},
		{"terminal size", "amd64", amd64, 16, []uint64{0, 0x5413}, seccompAllow},
		{"typing", "amd64", amd64, 16, []uint64{0, 0x5412}, eperm},
		{"typing with high bits", "amd64", amd64, 16, []uint64{0, 0x1_0000_5412}, eperm},
		{"pasting", "arm64", arm64, 29, []uint64{0, 0x541c}, eperm},
		{"personality question", "amd64", amd64, 135, []uint64{0xffffffff}, seccompAllow},
		{"personality plain", "amd64", amd64, 135, []uint64{0}, seccompAllow},
		{"personality without randomness", "amd64", amd64, 135, []uint64{0x40000}, eperm},
	} {
		program, ok := seccompFilter(c.goarch)
		if !ok {
			t.Fatalf("no filter for %s", c.goarch)
		}
		if got := judge(t, program, c.arch, c.number, c.args...); got != c.want {
			t.Errorf("%s on %s = %#x, want %#x", c.name, c.goarch, got, c.want)
		}
	}
	if _, ok := seccompFilter("riscv64"); ok {
		t.Error("there is a filter for a machine whose numbers are not known")
	}
}

// A change of the program must be meant: these are the bytes that were tried.
func TestFilterIsAsTried(t *testing.T) {
	t.Parallel()
	for goarch, want := range map[string]string{
		"amd64": "171 3f904908cc923a48",
		"arm64": "155 a00e3df68ab77ea7",
	} {
		program, _ := seccompFilter(goarch)
		if got := fmt.Sprintf("%d %.8x", len(program)/8, sha256.Sum256(program)); got != want {
			t.Errorf("filter for %s = %s, want %s", goarch, got, want)
		}
	}
}

func TestNoCallIsListedTwice(t *testing.T) {
	t.Parallel()
	for column := range 2 {
		var seen []int
		for _, call := range deniedCalls {
			if n := call.number[column]; n != none {
				if slices.Contains(seen, n) {
					t.Errorf("%s: %d is listed twice", call.name, n)
				}
				seen = append(seen, n)
			}
		}
	}
}
