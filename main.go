// Agent-runtime lets a course page run things on the learner's own machine,
// and nothing that the learner did not approve.
package main

func main() {}
