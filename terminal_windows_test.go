package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// playConsole types into the console that a child has and reads it as the
// terminal does. It prints what it finds.
func playConsole() {
	f, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	fmt.Println("console", err, isTerminal(f), isTerminal(os.Stdout), isTerminal(nil))
	input, err := openInput(f)
	fmt.Println("open", err, input.foreground())

	typeKeys(f, "early\r")
	fmt.Println("flush", flushInput(f))
	typeKeys(f, "yes\r")
	fmt.Println(input.readLine(context.Background()))

	ended, end := context.WithCancel(context.Background())
	end()
	_, err = input.readLine(ended)
	fmt.Println("ended", errors.Is(err, context.Canceled))

	begun, giveUp := context.WithCancel(context.Background())
	typeKeys(f, "n") // a line that is begun is waited for, until the question is withdrawn
	waited := make(chan error, 1)
	go func() { // ends with giveUp
		_, err := input.readLine(begun)
		waited <- err
	}()
	giveUp()
	fmt.Println("withdrawn", errors.Is(<-waited, context.Canceled))
}

func typeKeys(f *os.File, text string) {
	for _, char := range text {
		if err := pressKey(f, char); err != nil {
			fmt.Println("not typed:", err)
		}
	}
}

func TestWindowsConsoleIsReadAsATerminal(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	_, output := startMember(t, f, "terminal")
	for _, want := range []string{
		"console <nil> true false false",
		"open <nil> true",
		"flush <nil>",
		"yes <nil>",
		"ended true",
		"withdrawn true",
	} {
		if got := readLine(t, output); got != want {
			t.Errorf("the member printed %q, want %q", got, want)
		}
	}
}
