package main

// Pictures for agents. What an agent is given as a picture goes to its model,
// which may refuse the whole conversation for one that cannot be read.

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"slices"
	"unicode/utf8"
)

// Bounds of the pictures in one result, which agents read as one line.
const (
	imageLimit   = 3 << 20 // bytes of base64 of one
	imagesLimit  = 6 << 20 // of all
	imagesAtOnce = 8
)

// imageTypes are the pictures that agents can be shown, the best first.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// newToolImage makes a picture of a file's content, whatever its type was said
// to be, with a note about it. One that is too large has the note alone, and
// what is no picture that agents can be shown has none.
func newToolImage(content []byte) (image toolImage, note string) {
	kind := pictureType(content)
	switch {
	case kind == "":
		return image, ""
	case base64.StdEncoding.EncodedLen(len(content)) > imageLimit:
		return image, fmt.Sprintf("%s of %d bytes, which is left out: it may have %d bytes", kind, len(content), imageLimit/4*3)
	}
	return toolImage{kind, base64.StdEncoding.EncodeToString(content)}, fmt.Sprintf("%s of %d bytes", kind, len(content))
}

// pictureType is the type of a picture that begins as one must and has an end;
// "" for all else. Text can begin as a GIF does, and is none.
func pictureType(content []byte) string {
	kind := http.DetectContentType(content)
	if !slices.Contains(imageTypes, kind) || utf8.Valid(content) && !bytes.Contains(content, []byte{0}) {
		return ""
	}
	var err error
	whole := true
	switch kind {
	case "image/png":
		_, err = png.DecodeConfig(bytes.NewReader(content))
		whole = bytes.Contains(content, []byte("IEND"))
	case "image/jpeg":
		_, err = jpeg.DecodeConfig(bytes.NewReader(content))
		whole = bytes.Contains(content, []byte{0xff, 0xd9})
	case "image/gif":
		_, err = gif.DecodeConfig(bytes.NewReader(content))
		whole = bytes.Contains(content, []byte{0, ';'})
	case "image/webp": // told by its first 14 bytes, of which four are its length
		whole = int64(binary.LittleEndian.Uint32(content[4:])) <= int64(len(content)-8)
	}
	if err != nil || !whole {
		return ""
	}
	return kind
}
