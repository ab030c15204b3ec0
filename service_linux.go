package main

import "path/filepath"

// platformService is the service of this system, see [serviceHere].
func platformService(getenv func(string) string, home string, s serviceSettings) (*service, error) {
	configHome := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(configHome) {
		if home == "" {
			return nil, problemf(kindUnacceptable, "The home folder is not known: set HOME, or XDG_CONFIG_HOME to the folder for configuration.")
		}
		configHome = filepath.Join(home, ".config")
	}
	return systemdService(configHome, s)
}
