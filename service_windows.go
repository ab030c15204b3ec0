package main

// platformService refuses: Windows has no service that runs as a person does,
// at their login and with their rights.
func platformService(func(string) string, string, serviceSettings) (*service, error) {
	return nil, problemf(kindUnacceptable, "On Windows there is no service to install; to start agent-runtime at login, "+
		"put a shortcut to agent-runtime serve into the folder that opens with Win+R and shell:startup.")
}
