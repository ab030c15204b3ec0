package main

import (
	"os"
	"path/filepath"
	"strconv"
)

// residentMemory is how many bytes of memory a process and all that descend
// from it hold, what they share counted for each; 0 when that is not known.
func residentMemory(leader int) int64 {
	var sum int64
	for _, pid := range append(descendants(leader), leader) {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if err == nil { // else it has ended
			sum += procField(status, "VmRSS:") << 10
		}
	}
	return sum
}
