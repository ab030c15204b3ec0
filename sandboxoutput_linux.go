package main

import "unicode/utf8"

// outputLimit is how much of each output of a command is kept, in bytes.
const outputLimit = 1 << 20

// cappedOutput keeps the first bytes written to it and counts on, so that a
// chatty command is neither stopped nor kept in memory.
type cappedOutput struct {
	kept []byte
	cut  bool
}

func (o *cappedOutput) Write(p []byte) (int, error) {
	room := min(outputLimit-len(o.kept), len(p))
	o.kept = append(o.kept, p[:room]...)
	o.cut = o.cut || room < len(p)
	return len(p), nil
}

// text is the output as JSON can carry it. A character that the limit cut
// through is left out.
func (o *cappedOutput) text() string {
	kept := o.kept
	if o.cut {
		for i := 1; i <= min(utf8.UTFMax-1, len(kept)); i++ {
			if start := len(kept) - i; utf8.RuneStart(kept[start]) {
				if !utf8.FullRune(kept[start:]) {
					kept = kept[:start]
				}
				break
			}
		}
	}
	return jsonText(string(kept))
}
