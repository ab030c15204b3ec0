package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	fileObject         = 1 // SE_FILE_OBJECT
	ownerInformation   = 1
	accessInformation  = 4
	notInherited       = 0x80000000 // PROTECTED_DACL_SECURITY_INFORMATION
	descriptorRevision = 1
)

// trustedOwners are accounts that may use every file of the machine anyway:
// administrators, in whose name a program with their rights makes its files,
// and the system itself.
var trustedOwners = []string{"S-1-5-32-544", "S-1-5-18"}

// ownership tells in words who owns the file at path, and whether that is the
// account that this program runs as, or one that may do everything.
func ownership(path string, _ os.FileInfo) (owner string, ours bool) {
	d, err := readDescriptor(path)
	if err != nil {
		return "an unknown account", false
	}
	defer d.free()
	sid, err := d.owner.String()
	if err != nil {
		return "an unknown account", false
	}
	self, err := ownSID()
	if err != nil {
		return "an unknown account", false
	}
	for _, trusted := range append(trustedOwners, self) {
		if sid == trusted {
			return sid, true
		}
	}
	if name, domain, _, err := d.owner.LookupAccount(""); err == nil {
		return fmt.Sprintf("the account %q", domain+`\`+name), false
	}
	return "the account " + sid, false
}

func runsAsRoot() bool { return false }

// openToOthers finds nothing to be open: a mode here does not say who may use
// a file, and the list of access of the folder that it is in holds for it.
func openToOthers(os.FileInfo) bool { return false }

// tighten lets only this account and the system itself into the folder dir
// and all that is in it.
func tighten(dir string, _ os.FileInfo) error {
	self, err := ownSID()
	if err != nil {
		return err
	}
	// Full access for each, for what is in the folder as well, and nothing
	// from the folder around it.
	want, err := parseDescriptor("D:P(A;OICI;FA;;;" + self + ")(A;OICI;FA;;;SY)")
	if err != nil {
		return err
	}
	defer want.free()
	have, err := readDescriptor(dir)
	if err != nil {
		return err
	}
	defer have.free()
	if rules := have.rules(); rules != "" && rules == want.rules() {
		return nil
	}
	var access, present, byDefault uintptr
	if err := advapi32("GetSecurityDescriptorDacl", want.handle, uintptr(unsafe.Pointer(&present)),
		uintptr(unsafe.Pointer(&access)), uintptr(unsafe.Pointer(&byDefault))); err != nil {
		return err
	}
	return setAccess(dir, access)
}

// setAccess makes the list access that of dir, and has the system change what
// is in dir to match.
func setAccess(dir string, access uintptr) error {
	name, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	status, _, _ := syscall.NewLazyDLL("advapi32.dll").NewProc("SetNamedSecurityInfoW").Call(
		uintptr(unsafe.Pointer(name)), fileObject, accessInformation|notInherited, 0, 0, access, 0)
	if status != 0 {
		return os.NewSyscallError("SetNamedSecurityInfo", syscall.Errno(status))
	}
	return nil
}

// descriptor says who owns a file and who may use it. It is memory of the
// system's until free.
type descriptor struct {
	handle uintptr
	owner  *syscall.SID // part of it; nil when it was not read
}

func (d descriptor) free() { _, _ = syscall.LocalFree(syscall.Handle(d.handle)) }

func readDescriptor(path string) (descriptor, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return descriptor{}, err
	}
	var d descriptor
	status, _, _ := syscall.NewLazyDLL("advapi32.dll").NewProc("GetNamedSecurityInfoW").Call(
		uintptr(unsafe.Pointer(name)), fileObject, ownerInformation|accessInformation,
		uintptr(unsafe.Pointer(&d.owner)), 0, 0, 0, uintptr(unsafe.Pointer(&d.handle)))
	if status != 0 {
		return descriptor{}, os.NewSyscallError("GetNamedSecurityInfo", syscall.Errno(status))
	}
	return d, nil
}

func parseDescriptor(text string) (descriptor, error) {
	words, err := syscall.UTF16PtrFromString(text)
	if err != nil {
		return descriptor{}, err
	}
	var d descriptor
	err = advapi32("ConvertStringSecurityDescriptorToSecurityDescriptorW", uintptr(unsafe.Pointer(words)),
		descriptorRevision, uintptr(unsafe.Pointer(&d.handle)), 0)
	return d, err
}

// rules are those of access, written as the system writes them; "" when some
// come from the folder around, or they cannot be told.
func (d descriptor) rules() string {
	var words *uint16
	var length uint32
	if advapi32("ConvertSecurityDescriptorToStringSecurityDescriptorW", d.handle, descriptorRevision, accessInformation,
		uintptr(unsafe.Pointer(&words)), uintptr(unsafe.Pointer(&length))) != nil {
		return ""
	}
	defer syscall.LocalFree(syscall.Handle(unsafe.Pointer(words)))
	flags, rules, _ := strings.Cut(syscall.UTF16ToString(unsafe.Slice(words, length)), "(")
	if !strings.HasPrefix(flags, "D:P") {
		return ""
	}
	return rules
}

// ownSID names the account that this program runs as.
func ownSID() (string, error) {
	token, err := syscall.OpenCurrentProcessToken()
	if err != nil {
		return "", err
	}
	defer token.Close()
	account, err := token.GetTokenUser()
	if err != nil {
		return "", err
	}
	return account.User.Sid.String()
}

// advapi32 calls a function of the system's library for accounts that returns
// 0 when it fails. Pointers among args stay valid until it returns.
//
//go:uintptrescapes
func advapi32(name string, args ...uintptr) error {
	if r, _, err := syscall.NewLazyDLL("advapi32.dll").NewProc(name).Call(args...); r == 0 {
		return os.NewSyscallError(name, err)
	}
	return nil
}
