package main

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// connected returns both ends of a connection to address.
func connected(t testing.TB, address string, family int) (near net.Conn, far *os.File) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("nothing can listen on %s here: %v", address, err)
	}
	defer listener.Close()
	return connectTo(t, listener, family)
}

func connectTo(t testing.TB, listener net.Listener, family int) (near net.Conn, far *os.File) {
	t.Helper()
	socket, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	far = os.NewFile(uintptr(socket), "far end")
	t.Cleanup(func() { _ = far.Close() })
	at := addrPort(t, listener.Addr())
	var to syscall.Sockaddr = &syscall.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if family == syscall.AF_INET {
		to = &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	if err := syscall.Connect(socket, to); err != nil {
		t.Fatal(err)
	}
	near, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	return near, far
}

func addrPort(t testing.TB, addr net.Addr) netip.AddrPort {
	t.Helper()
	parsed, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The kernel is asked about one connection
// or, where it does not answer, its list of all is read.
func TestBothWaysTellWhoseAConnectionIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string
		family  int
	}{
		"IPv4":                {"127.0.0.1:0", syscall.AF_INET},
		"IPv6":                {"[::1]:0", syscall.AF_INET6},
		"IPv4 written as v6":  {"127.0.0.1:0", syscall.AF_INET6},
		"another IPv4 of lo":  {"127.1.2.3:0", syscall.AF_INET},
		"both kinds listened": {"[::]:0", syscall.AF_INET6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := connected(t, c.address, c.family)
			from, to := addrPort(t, near.RemoteAddr()), addrPort(t, near.LocalAddr())
			asked := func() (int, bool) {
				uid, ok, err := diagOwner(from, to)
				if err != nil {
					t.Skipf("this kernel does not tell of one connection: %v", err)
				}
				return uid, ok
			}
			listed := func() (int, bool) { return listedOwner(from, to) }
			for way, owner := range map[string]func() (int, bool){"asked": asked, "listed": listed} {
				if uid, ok := owner(); !ok || uid != os.Getuid() {
					t.Errorf("%s: account %d, %v; want %d, true", way, uid, ok, os.Getuid())
				}
			}
			if ofAnotherAccount(near) {
				t.Error("our own connection is taken for another account's")
			}
			if err := far.Close(); err != nil {
				t.Fatal(err)
			}
			// Children that other tests are starting may still hold it.
			for _, owner := range []func() (int, bool){asked, listed} {
				awaitSeen(t, func() bool {
					_, held := owner()
					return !held
				})
			}
			if !ofAnotherAccount(near) {
				t.Error("a connection that nobody holds is let in")
			}
		})
	}
}

// The kernel tells of a listener on a port when nothing is connected from it.
func TestListenerIsNotTakenForAConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d, err := openDiag()
	if err != nil {
		t.Skipf("this kernel does not tell of one connection: %v", err)
	}
	defer d.close()
	from, to := addrPort(t, listener.Addr()), netip.MustParseAddrPort("127.0.0.1:1")
	if uid, ok, err := d.find(from, to); ok || err != syscall.ENOENT {
		t.Errorf("find = %d, %v, %v; want none, %v", uid, ok, err, syscall.ENOENT)
	}
}

func FuzzDiagAnswer(f *testing.F) {
	from, to := netip.MustParseAddrPort("127.0.0.1:2"), netip.MustParseAddrPort("127.0.0.1:3")
	f.Add(uint16(syscall.NLMSG_ERROR), []byte{0xfe, 0xff, 0xff, 0xff})
	f.Add(uint16(sockDiagByFamily), make([]byte, diagAnswerSize))
	f.Add(uint16(sockDiagByFamily), append([]byte{syscall.AF_INET6}, make([]byte, diagAnswerSize)...))
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		m := syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: data}
		if _, ok, err := readDiagAnswer(m, from, to); ok && err != nil {
			t.Errorf("an answer both tells and fails: %v", err)
		}
	})
}

func BenchmarkOwnerOfOneOfManyConnections(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	var near net.Conn
	for range 5000 {
		near, _ = connectTo(b, listener, syscall.AF_INET)
	}
	from, to := addrPort(b, near.RemoteAddr()), addrPort(b, near.LocalAddr())
	b.Run("asked", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := diagOwner(from, to); !ok || err != nil {
				b.Fatal("not found", err)
			}
		}
	})
	b.Run("listed", func(b *testing.B) {
		for b.Loop() {
			if _, ok := listedOwner(from, to); !ok {
				b.Fatal("not found")
			}
		}
	})
}
