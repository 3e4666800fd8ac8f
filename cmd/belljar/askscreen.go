package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/people/question"
)

// formed reports whether a terminal can show a form: it must be able to move the cursor to
// any place of its screen.
func (s screen) formed() bool {
	kind := os.Getenv("TERM")
	return s.in != nil && kind != "" && kind != "dumb"
}

// lookForSize is how often a form checks whether its terminal has another size, in
// milliseconds.
const lookForSize = 200

// fill shows a form until the person has filled it in or left it, or until ctx ends. Then
// it restores the screen.
func (s screen) fill(ctx context.Context, a question.Asked) (*askForm, error) {
	restore, err := s.raw()
	if err != nil {
		return nil, err
	}
	defer restore()
	// A line that was typed before the question was shown does not answer it.
	if err := forgetTyped(s.in); err != nil {
		return nil, err
	}
	// The alternate screen, without a cursor (xterm's control sequences).
	fmt.Fprint(s.out, "\x1b[?1049h\x1b[?25l")
	defer fmt.Fprint(s.out, "\x1b[?25h\x1b[?1049l")
	f := newAskForm(a)
	var shown string
	for f.state == formOpen {
		if now := s.drawn(f); now != shown {
			if _, err := fmt.Fprint(s.out, now); err != nil {
				return nil, fmt.Errorf("show the question: %w", err)
			}
			shown = now
		}
		keys, err := s.keys()
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		for _, key := range keys {
			if f.state == formOpen {
				f.press(key)
			}
		}
		if ctx.Err() != nil {
			f.state = formLeft
		}
	}
	return f, nil
}

// drawn returns the bytes that make a terminal show a form.
func (s screen) drawn(f *askForm) string {
	width, height := 80, 24
	if size := s.size(); size != nil && size.Columns > 0 && size.Rows > 0 {
		width, height = size.Columns, size.Rows
	}
	return "\x1b[H\x1b[2J" + strings.Join(f.lines(width, height), "\r\n")
}

// keys returns the keys that are typed within lookForSize, or nil if no key is typed.
func (s screen) keys() ([]string, error) {
	ready := []unix.PollFd{{Fd: int32(s.in.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(ready, lookForSize)
	if n == 0 || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	typed := make([]byte, 4096)
	if n, err = s.in.Read(typed); err != nil {
		return nil, err
	}
	return keysIn(string(typed[:n])), nil
}

// keysIn returns the keys that a terminal sent in one piece: its sequences, which begin
// with an escape, and characters.
func keysIn(text string) (all []string) {
	for text != "" {
		_, size := utf8.DecodeRuneInString(text)
		if strings.HasPrefix(text, "\x1b[") || strings.HasPrefix(text, "\x1bO") {
			size = 2
			for size < len(text) && (text[size] < 0x40 || text[size] > 0x7e) {
				size++
			}
			size = min(size+1, len(text))
		}
		key := text[:size]
		if strings.HasPrefix(key, "\x1bO") {
			key = "\x1b[" + key[2:] // the sequence of a cursor key in application mode
		}
		if key == "\n" {
			key = keyEnter
		}
		all, text = append(all, key), text[size:]
	}
	return all
}
