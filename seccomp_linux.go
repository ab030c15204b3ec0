package main

// The system-call filter of a sandbox: all is allowed but what is listed. A
// list of what is allowed would be broken by every new runtime, and gain
// little where there are no capabilities and no nested namespaces.

import "encoding/binary"

// Answers of the filter to a call, as the kernel reads them.
const (
	seccompAllow = 0x7fff0000
	seccompErrno = 0x00050000 // with the error number in the low half
	seccompKill  = 0x80000000 // the whole process
)

// Error numbers, the same on every system that the filter is made for.
const (
	denyEPERM  = 1
	denyENOSYS = 38 // the C library then takes an older call
	denyFamily = 97 // EAFNOSUPPORT
)

// Instructions of the kernel's packet filter.
const (
	bpfLoad = 0x20 // load the word at k of what is judged
	bpfEq   = 0x15 // jump when equal to k
	bpfGe   = 0x35 // jump when at least k
	bpfSet  = 0x45 // jump when a bit of k is set
	bpfRet  = 0x06 // answer k
)

// Where the words of what is judged stand. An argument's low half comes first
// on the machines known here.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg1   = 24
)

// machine is what the filter must know of a processor.
type machine struct {
	arch    uint32 // AUDIT_ARCH_*
	column  int    // of deniedCalls
	foreign uint32 // calls from this number up belong to another set of calls; 0 when there is none
}

var machines = map[string]machine{
	"amd64": {arch: 0xc000003e, column: 0, foreign: 0x40000000},
	"arm64": {arch: 0xc00000b7, column: 1},
}

// none stands for a call that a machine does not have.
const none = -1

// deniedCalls are refused whatever their arguments.
var deniedCalls = []struct {
	name   string
	number [2]int // on amd64, on arm64
	errno  uint32
}{
	// Mounts and namespaces.
	{"mount", [2]int{165, 40}, denyEPERM},
	{"umount2", [2]int{166, 39}, denyEPERM},
	{"pivot_root", [2]int{155, 41}, denyEPERM},
	{"chroot", [2]int{161, 51}, denyEPERM},
	{"setns", [2]int{308, 268}, denyEPERM},
	{"unshare", [2]int{272, 97}, denyEPERM},
	{"open_tree", [2]int{428, 428}, denyENOSYS},
	{"move_mount", [2]int{429, 429}, denyENOSYS},
	{"fsopen", [2]int{430, 430}, denyENOSYS},
	{"fsconfig", [2]int{431, 431}, denyENOSYS},
	{"fsmount", [2]int{432, 432}, denyENOSYS},
	{"fspick", [2]int{433, 433}, denyENOSYS},
	{"clone3", [2]int{435, 435}, denyENOSYS}, // its flags are out of a filter's reach
	{"mount_setattr", [2]int{442, 442}, denyENOSYS},
	{"open_tree_attr", [2]int{467, 467}, denyENOSYS},

	// The kernel and its clock.
	{"swapon", [2]int{167, 224}, denyEPERM},
	{"swapoff", [2]int{168, 225}, denyEPERM},
	{"reboot", [2]int{169, 142}, denyEPERM},
	{"kexec_load", [2]int{246, 104}, denyEPERM},
	{"kexec_file_load", [2]int{320, 294}, denyEPERM},
	{"init_module", [2]int{175, 105}, denyEPERM},
	{"finit_module", [2]int{313, 273}, denyEPERM},
	{"delete_module", [2]int{176, 106}, denyEPERM},
	{"acct", [2]int{163, 89}, denyEPERM},
	{"quotactl", [2]int{179, 60}, denyEPERM},
	{"quotactl_fd", [2]int{443, 443}, denyEPERM},
	{"syslog", [2]int{103, 116}, denyEPERM},
	{"settimeofday", [2]int{164, 170}, denyEPERM},
	{"clock_settime", [2]int{227, 112}, denyEPERM},
	{"adjtimex", [2]int{159, 171}, denyEPERM},
	{"clock_adjtime", [2]int{305, 266}, denyEPERM},
	{"vhangup", [2]int{153, 58}, denyEPERM},
	{"sethostname", [2]int{170, 161}, denyEPERM},
	{"setdomainname", [2]int{171, 162}, denyEPERM},
	{"iopl", [2]int{172, none}, denyEPERM},
	{"ioperm", [2]int{173, none}, denyEPERM},

	// Keys, tracing, and doors past file permissions.
	{"add_key", [2]int{248, 217}, denyEPERM},
	{"request_key", [2]int{249, 218}, denyEPERM},
	{"keyctl", [2]int{250, 219}, denyEPERM},
	{"ptrace", [2]int{101, 117}, denyEPERM},
	{"process_vm_readv", [2]int{310, 270}, denyEPERM},
	{"process_vm_writev", [2]int{311, 271}, denyEPERM},
	{"kcmp", [2]int{312, 272}, denyEPERM},
	{"pidfd_getfd", [2]int{438, 438}, denyEPERM},
	{"process_madvise", [2]int{440, 440}, denyEPERM},
	{"bpf", [2]int{321, 280}, denyEPERM},
	{"perf_event_open", [2]int{298, 241}, denyEPERM},
	{"userfaultfd", [2]int{323, 282}, denyEPERM},
	{"name_to_handle_at", [2]int{303, 264}, denyEPERM},
	{"open_by_handle_at", [2]int{304, 265}, denyEPERM},
	{"fanotify_init", [2]int{300, 262}, denyEPERM},

	// A second door to system calls, past every rule about sockets.
	{"io_uring_setup", [2]int{425, 425}, denyENOSYS},
	{"io_uring_enter", [2]int{426, 426}, denyENOSYS},
	{"io_uring_register", [2]int{427, 427}, denyENOSYS},

	// Placement of memory.
	{"mbind", [2]int{237, 235}, denyEPERM},
	{"set_mempolicy", [2]int{238, 237}, denyEPERM},
	{"get_mempolicy", [2]int{239, 236}, denyEPERM},
	{"migrate_pages", [2]int{256, 238}, denyEPERM},
	{"move_pages", [2]int{279, 239}, denyEPERM},
	{"set_mempolicy_home_node", [2]int{450, 450}, denyEPERM},

	// Memory that no limit of a process counts.
	{"memfd_create", [2]int{319, 279}, denyENOSYS},
	{"memfd_secret", [2]int{447, 447}, denyENOSYS},
	{"shmget", [2]int{29, 194}, denyEPERM},

	// What nothing has used for decades.
	{"uselib", [2]int{134, none}, denyENOSYS},
	{"ustat", [2]int{136, none}, denyENOSYS},
	{"sysfs", [2]int{139, none}, denyENOSYS},
	{"modify_ldt", [2]int{154, none}, denyENOSYS},
	{"_sysctl", [2]int{156, none}, denyENOSYS},
	{"lookup_dcookie", [2]int{212, 18}, denyENOSYS},
	{"nfsservctl", [2]int{180, 42}, denyENOSYS},
}

// Calls that are refused for some arguments, on amd64 and on arm64.
var (
	callClone       = [2]int{56, 220}
	callSocket      = [2]int{41, 198}
	callIoctl       = [2]int{16, 29}
	callPersonality = [2]int{135, 92}
)

const (
	newNamespaces = 0x7e020080 // every CLONE_NEW* flag
	pushInput     = 0x5412     // TIOCSTI: type into a terminal
	pasteInput    = 0x541c     // TIOCLINUX
	queryOnly     = 0xffffffff // what personality takes as a question
)

// socketFamilies are those that a sandbox may open: local, IPv4 and IPv6. All
// others can reach parts of the kernel that have no namespace.
var socketFamilies = []uint32{1, 2, 10}

// instruction is one step of the kernel's packet filter.
type instruction struct {
	code   uint16
	jt, jf uint8 // how many instructions to skip when the test holds, and when not
	k      uint32
}

// seccompFilter is the filter's program for a machine, in its byte order. ok is
// false for a machine that the filter does not know.
func seccompFilter(goarch string) (program []byte, ok bool) {
	m, ok := machines[goarch]
	if !ok {
		return nil, false
	}
	steps := []instruction{
		{bpfLoad, 0, 0, offsetArch},
		{bpfEq, 1, 0, m.arch},
		{bpfRet, 0, 0, seccompKill},
		{bpfLoad, 0, 0, offsetNumber},
	}
	if m.foreign != 0 {
		steps = append(steps, instruction{bpfGe, 0, 1, m.foreign}, deny(denyENOSYS))
	}
	for _, call := range deniedCalls {
		if number := call.number[m.column]; number != none {
			steps = append(steps, instruction{bpfEq, 0, 1, uint32(number)}, deny(call.errno))
		}
	}
	for _, rule := range argumentRules() {
		number := uint32(rule.call[m.column])
		steps = append(steps, instruction{bpfEq, 0, uint8(len(rule.steps)), number})
		steps = append(steps, rule.steps...)
	}
	steps = append(steps, instruction{bpfRet, 0, 0, seccompAllow})
	return encodeFilter(steps), true
}

// argumentRule judges one call by an argument. Its steps always answer.
type argumentRule struct {
	call  [2]int
	steps []instruction
}

func argumentRules() []argumentRule {
	allow := instruction{bpfRet, 0, 0, seccompAllow}
	families := []instruction{{bpfLoad, 0, 0, offsetArg0}}
	for i, family := range socketFamilies {
		families = append(families, instruction{bpfEq, uint8(len(socketFamilies) - i), 0, family})
	}
	return []argumentRule{
		{callClone, []instruction{{bpfLoad, 0, 0, offsetArg0}, {bpfSet, 0, 1, newNamespaces}, deny(denyEPERM), allow}},
		{callSocket, append(families, deny(denyFamily), allow)},
		{callIoctl, []instruction{
			{bpfLoad, 0, 0, offsetArg1}, // the kernel looks at the low half alone
			{bpfEq, 1, 0, pushInput},
			{bpfEq, 0, 1, pasteInput},
			deny(denyEPERM),
			allow,
		}},
		{callPersonality, []instruction{
			{bpfLoad, 0, 0, offsetArg0},
			{bpfEq, 2, 0, 0},
			{bpfEq, 1, 0, queryOnly},
			deny(denyEPERM),
			allow,
		}},
	}
}

func deny(errno uint32) instruction { return instruction{bpfRet, 0, 0, seccompErrno | errno} }

func encodeFilter(steps []instruction) []byte {
	out := make([]byte, 0, 8*len(steps))
	for _, s := range steps {
		out = binary.LittleEndian.AppendUint16(out, s.code)
		out = append(out, s.jt, s.jf)
		out = binary.LittleEndian.AppendUint32(out, s.k)
	}
	return out
}
