package main

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	sockDiagByFamily = 20
	diagRequestSize  = 56 // struct inet_diag_req_v2
	diagAnswerSize   = 72 // struct inet_diag_msg
)

// diagPatience is how long the kernel may take, which answers while it is asked.
const diagPatience = 1 // second

// diagSocket asks the kernel about one connection at a time, which takes it
// the same time however many there are.
type diagSocket struct{ fd int }

func openDiag() (diagSocket, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_INET_DIAG)
	if err != nil {
		return diagSocket{}, err
	}
	d := diagSocket{fd}
	err = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: diagPatience})
	if err != nil {
		d.close()
	}
	return d, err
}

func (d diagSocket) close() { _ = syscall.Close(d.fd) }

// diagOwner finds the account of the socket whose own end is from, and which
// is connected to to, whose holder we are. ok is false when there is none, or
// no program holds it any more. An error says that the kernel does not tell.
func diagOwner(from, to netip.AddrPort) (uid int, ok bool, err error) {
	d, err := openDiag()
	if err != nil {
		return 0, false, err
	}
	defer d.close()
	uid, ok, err = d.find(from, to)
	if errors.Is(err, syscall.ENOENT) {
		// A kernel that does not tell at all says the same, so it is asked
		// for our own end, which is there.
		_, _, err = d.find(to, from)
		return 0, false, err
	}
	return uid, ok, err
}

// find finds the account of the socket whose own end is from, as diagOwner. The
// error is ENOENT when there is none.
func (d diagSocket) find(from, to netip.AddrPort) (uid int, ok bool, err error) {
	if err := syscall.Sendto(d.fd, diagRequest(from, to), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, false, err
	}
	buffer := make([]byte, syscall.Getpagesize())
	n, sender, err := syscall.Recvfrom(d.fd, buffer, 0)
	if err != nil {
		return 0, false, err
	}
	if kernel, isNetlink := sender.(*syscall.SockaddrNetlink); !isNetlink || kernel.Pid != 0 {
		return 0, false, errors.New("an answer that is not the kernel's")
	}
	messages, err := syscall.ParseNetlinkMessage(buffer[:n])
	if err != nil || len(messages) == 0 {
		return 0, false, errors.Join(err, errors.New("an answer without a message"))
	}
	return readDiagAnswer(messages[0], from, to)
}

func diagRequest(from, to netip.AddrPort) []byte {
	own, other := from.Addr().Unmap(), to.Addr().Unmap()
	family := byte(syscall.AF_INET6)
	if own.Is4() {
		family = syscall.AF_INET
	}
	b := make([]byte, syscall.NLMSG_HDRLEN, syscall.NLMSG_HDRLEN+diagRequestSize)
	binary.NativeEndian.PutUint32(b[0:], uint32(cap(b)))
	binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	b = append(b, family, syscall.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // in whatever state
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	for _, addr := range []netip.Addr{own, other} {
		b = append(b, addr.AsSlice()...)
		b = append(b, make([]byte, 16-addr.BitLen()/8)...)
	}
	b = binary.NativeEndian.AppendUint32(b, 0) // on whatever interface
	return binary.NativeEndian.AppendUint64(b, ^uint64(0))
}

// readDiagAnswer reads the kernel's answer. It may tell of a listener when
// nothing is connected, so the addresses are compared.
func readDiagAnswer(m syscall.NetlinkMessage, from, to netip.AddrPort) (uid int, ok bool, err error) {
	data := m.Data
	if m.Header.Type == syscall.NLMSG_ERROR && len(data) >= 4 {
		return 0, false, syscall.Errno(-int32(binary.NativeEndian.Uint32(data)))
	}
	if m.Header.Type != sockDiagByFamily || len(data) < diagAnswerSize {
		return 0, false, errors.New("an answer of another kind")
	}
	length := 4
	if data[0] == syscall.AF_INET6 {
		length = 16
	}
	end := func(port, addr []byte) netip.AddrPort {
		ip, _ := netip.AddrFromSlice(addr)
		return netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(port))
	}
	plain := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
	if end(data[4:6], data[8:8+length]) != plain(from) || end(data[6:8], data[24:24+length]) != plain(to) {
		return 0, false, syscall.ENOENT
	}
	uid, inode := int(binary.NativeEndian.Uint32(data[64:])), binary.NativeEndian.Uint32(data[68:])
	return uid, inode != 0, nil
}
