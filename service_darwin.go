package main

import "os"

// platformService is the service of this system, see [serviceHere].
func platformService(_ func(string) string, home string, s serviceSettings) (*service, error) {
	if home == "" {
		return nil, problemf(kindUnacceptable, "The home folder is not known: set HOME to it.")
	}
	return launchdService(home, os.Getuid(), s), nil
}
