package main

// platformService is nil: Windows has no service that runs as a person does,
// at their login and with their rights.
func platformService(func(string) string, string, serviceSettings) (*service, error) { return nil, nil }
