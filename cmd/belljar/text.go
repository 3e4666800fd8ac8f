package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"belljar.dev/internal/printable"
)

// printJSON prints a value as JSON, for programs.
func printJSON(out io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = out.Write(printable.JSON(text.Bytes()))
	}
	if err != nil {
		return failure(fmt.Errorf("print: %w", err))
	}
	return nil
}

// numbered returns a number of things in words.
func numbered(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// number returns a count with its noun.
func number(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// cell returns a text for a table whose cells are separated by tabs. The text can neither
// break out of its cell nor control a terminal.
func cell(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case !printable.Rune(r):
			return -1
		}
		return r
	}, s)
}

// tamed returns a text of several lines without any characters that control a terminal.
func tamed(text string) string {
	var b strings.Builder
	w := printable.NewWriter(&b)
	_, _ = io.WriteString(w, text) // a write to memory cannot fail
	_ = w.Flush()
	return b.String()
}

// replaceable returns an error if a name stands for something else than a file. A rename
// would put a file into its place, also into that of a device such as /dev/null.
func replaceable(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write %s: it is not a regular file", name)
	}
	return nil // what os.Stat could not find out, the write reports
}

// replace replaces a file that a viewer may have open.
func replace(name string, data []byte) error {
	if err := replaceable(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".belljar-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
