package main

// The start of a new lab: a lab.toml with comments for its author, and the
// schema by which an editor completes and checks it.

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// schemaName is the file that the first line of a new lab.toml points to.
const schemaName = "lab.schema.json"

// labSchema says in the words of JSON Schema what parseManifest accepts.
//
//go:embed docs/lab.schema.json
var labSchema []byte

// labTemplate is given the id, twice.
const labTemplate = `#:schema ./` + schemaName + `

# What a page may start of this repository, and nothing else of it can be
# started by one.
#
#   agent-runtime lab check        tells every mistake in this file
#   agent-runtime lab run . greet  runs an action as a page would
#
# The first line is for editors that complete and check TOML by a schema, such
# as those with Taplo or Even Better TOML. It and the file that it names may be
# removed.

# The version of the rules for this file; 1 is the only one.
schema = 1

# Names the lab, and the Python environment that labs with the same id share: 1
# to 64 letters, digits, '.', '_' and '-', the first a letter or digit.
id = "%s"

# What people see as the lab's name: at most 200 characters.
title = "%s"

# An action is a button of the page. There may be 50, and they keep the order
# of this file. A name has 1 to 40 small letters, digits, '_' and '-'.
[actions.greet]
# The words on the button: at most 120 characters.
label = "Say hello"
# What it does, for people: optional, at most 1000 characters.
description = "Prints one line."
# Up to 20 programs, one after the other until one fails. Each is a list of its
# words, not a line for a shell; "python" and "pip" are the lab's own.
steps = [["python", "-c", "print('Hello!')"]]
# Seconds for all steps together: optional, 1 to 7200; 900 when absent.
timeout = 60

# Another one:
#
# [actions.setup]
# label = "Install"
# description = "Installs the packages of the lab into its own environment."
# steps = [
#   ["pip", "install", "--requirement", "requirements.txt"],
#   ["python", "check_setup.py"],
# ]
# timeout = 600
`

// startLab writes the files of a new lab into dir, which is made when it is
// not there, and returns their names. No file is overwritten: a lab.toml is an
// error, and a schema stays as it is and is not among the names.
func startLab(dir string) ([]string, error) {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, problemf(kindUnacceptable, "The folder %s cannot be made; choose another one.", visible(dir)).because(err)
	}
	id := labIDFor(filepath.Base(whole))
	err = createFile(filepath.Join(dir, manifestName), fmt.Appendf(nil, labTemplate, id, id))
	if errors.Is(err, fs.ErrExist) {
		return nil, problemf(kindConflict, "There is a %s in %s already, and it stays as it is; agent-runtime lab check tells what is wrong with it.", manifestName, visible(dir))
	}
	if err != nil {
		return nil, problemf(kindUnacceptable, "%s cannot be written.", visible(filepath.Join(dir, manifestName))).because(err)
	}
	err = createFile(filepath.Join(dir, schemaName), labSchema)
	if errors.Is(err, fs.ErrExist) {
		return []string{manifestName}, nil
	}
	if err != nil {
		return nil, problemf(kindUnacceptable, "%s cannot be written; the lab.toml beside it is ready.", visible(filepath.Join(dir, schemaName))).because(err)
	}
	return []string{manifestName, schemaName}, nil
}

// createFile writes a file that must not be there yet, not even as a link.
func createFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// maxLabID is how many characters labIDPattern lets an id have.
const maxLabID = 64

var notInLabID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// labIDFor makes a valid id of a folder's name.
func labIDFor(folder string) string {
	id := strings.TrimLeft(notInLabID.ReplaceAllString(folder, "-"), "._-")
	id = strings.TrimRight(id[:min(len(id), maxLabID)], "._-")
	if id == "" {
		return "my-lab"
	}
	return id
}
