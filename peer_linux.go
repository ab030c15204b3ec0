package main

import (
	"bufio"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ofAnotherAccount reports whether the far end of a loopback connection is
// not a socket of this program's own account. A socket that its program has
// already closed belongs to nobody, and is refused too.
func ofAnotherAccount(conn net.Conn) bool {
	remote, err1 := netip.ParseAddrPort(conn.RemoteAddr().String())
	local, err2 := netip.ParseAddrPort(conn.LocalAddr().String())
	if err1 != nil || err2 != nil || !remote.Addr().Unmap().IsLoopback() {
		return false
	}
	uid, ok, err := diagOwner(remote, local)
	if err != nil {
		uid, ok = listedOwner(remote, local)
	}
	return !ok || uid != os.Getuid()
}

// listedOwner finds the account of the socket whose own end is from in the
// kernel's lists of all connections, for where it cannot be asked about one.
// ok is false when there is none, or no program holds it any more.
func listedOwner(from, to netip.AddrPort) (uid int, ok bool) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if uid, ok := ownerInTable(table, from, to); ok {
			return uid, true
		}
	}
	return 0, false
}

func ownerInTable(table string, from, to netip.AddrPort) (uid int, ok bool) {
	file, err := os.Open(table)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || !sameSocket(fields[1], from) || !sameSocket(fields[2], to) {
			continue
		}
		uid, err := strconv.Atoi(fields[7])
		return uid, err == nil && fields[9] != "0"
	}
	return 0, false
}

// sameSocket compares an address and port of the kernel's table, where an
// address is written as words in the machine's byte order, with addr.
func sameSocket(entry string, addr netip.AddrPort) bool {
	ip, port, ok := strings.Cut(entry, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || uint16(number) != addr.Port() {
		return false
	}
	raw, err := hex.DecodeString(ip)
	if err != nil || len(raw)%4 != 0 {
		return false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	got, ok := netip.AddrFromSlice(raw)
	return ok && got.Unmap() == addr.Addr().Unmap()
}
