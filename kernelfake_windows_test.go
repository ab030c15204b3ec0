package main

// playFakeKernel: the fake kernel is a script, which this system cannot start.
func playFakeKernel(string) {}
