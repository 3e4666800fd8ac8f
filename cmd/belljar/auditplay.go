package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/pause"
	"belljar.dev/internal/printable"
	"belljar.dev/policies/audit"
)

func auditCastCommand() *cobra.Command {
	var a auditing
	c := &cobra.Command{
		Use:   "cast CALL",
		Short: "print the recording of a call",
		Long: `cast prints the output of a command in the format asciicast v2, for asciinema and
other players. Calls are recorded at the level full. It fails, and prints nothing,
if the file is not the one whose SHA-256 the log has.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			text, cut, err := a.cast(c.Context(), args[0])
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
				tellCut(c, cut)
			}
			return failure(err)
		},
	}
	a.flags(c)
	return c
}

func auditPlayCommand() *cobra.Command {
	var (
		a     auditing
		speed float64
		idle  time.Duration
	)
	c := &cobra.Command{
		Use:   "play CALL",
		Short: "play the recording of a call on this terminal",
		Long: `play shows the output of a command at its original speed. It leaves out sequences
that do more to a terminal than move, colour and erase.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if speed <= 0 || speed > 1e6 || idle < 0 {
				return usage("audit play: want a --speed above 0 and an --idle of 0 or more")
			}
			text, cut, err := a.cast(c.Context(), args[0])
			if err != nil {
				return failure(err)
			}
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			// tame only passes on what a recording may do to a terminal
			if err := play(ctx, printable.Raw(c.OutOrStdout()), text, speed, idle); err != nil {
				return failure(err)
			}
			tellCut(c, cut)
			return nil
		},
	}
	a.flags(c)
	c.Flags().Float64Var(&speed, "speed", 1, "speed, in `times` the original one")
	c.Flags().DurationVar(&idle, "idle", 2*time.Second, "longest pause, a `time`")
	return c
}

// cast returns the recording of a call, if it agrees with the log. cut says why the
// recording is incomplete, and how much is missing; it is empty if the recording is
// complete.
func (a *auditing) cast(ctx context.Context, callID string) (text []byte, cut string, err error) {
	dir, err := a.dir()
	if err != nil {
		return nil, "", err
	}
	text, of, err := audit.ReadCast(ctx, dir, callID, nil)
	return text, of.Incomplete(), err
}

// play writes the output of a recording at the recorded times.
func play(ctx context.Context, out io.Writer, text []byte, speed float64, idle time.Duration) error {
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, audit.MaxRecordingText)
	lines.Scan() // the header
	var t tame
	last := 0.0
	for lines.Scan() {
		var event [3]any
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("play recording: %w", err)
		}
		at, isTime := event[0].(float64)
		shows, isText := event[2].(string)
		if !isTime || !isText {
			return errors.New("play recording: a line of the recording is not an event")
		}
		wait := min(time.Duration((at-last)/speed*float64(time.Second)), idle)
		last = at
		if event[1] != "o" {
			continue
		}
		if wait > 0 && pause.For(ctx, wait) != nil {
			return nil //nolint:nilerr // a person has stopped the player
		}
		if _, err := io.WriteString(out, t.text(shows)); err != nil {
			return fmt.Errorf("play recording: %w", err)
		}
	}
	return lines.Err()
}

// tame removes, from text for a terminal, everything that could make the terminal do more
// than draw: control strings (ECMA-48: DCS, OSC, SOS, PM and APC), which set the clipboard
// or the title, and sequences that ask the terminal to answer.
type tame struct {
	escaped bool   // whether the last byte was an ESC
	in      byte   // ']' in a control string, '[' in a control sequence, 0 outside
	held    []byte // bytes of the sequence so far
}

func (t *tame) text(s string) string {
	out := make([]byte, 0, len(s))
	for _, c := range []byte(strings.Map(shape, s)) {
		switch {
		case t.in == ']':
			if c == 7 || t.escaped && c == '\\' {
				t.in = 0
			}
			t.escaped = c == 0x1b
		case t.in == '[':
			t.held = append(t.held, c)
			if c >= 0x40 && c <= 0x7e {
				if strings.IndexByte("ABCDEFGHJKLMPSTXZdfhlmr@", c) >= 0 {
					out = append(out, t.held...)
				}
				t.in, t.held = 0, t.held[:0]
			} else if len(t.held) > 64 || c < 0x20 {
				t.in, t.held = 0, t.held[:0]
			}
		case t.escaped:
			t.escaped = false
			switch {
			case strings.IndexByte("]PX^_", c) >= 0:
				t.in = ']'
			case c == '[':
				t.in, t.held = '[', append(t.held[:0], 0x1b, '[')
			case strings.IndexByte("78DEM=>", c) >= 0:
				out = append(out, 0x1b, c)
			}
		case c == 0x1b:
			t.escaped = true
		case c >= 0x20 && c != 0x7f, strings.IndexByte("\r\n\t\b\a", c) >= 0:
			out = append(out, c)
		}
	}
	return string(out)
}

// shape returns r, or -1 if r is outside of ASCII and has no shape. Such characters are C1
// controls, with which a sequence may also begin, and marks that hide or reorder text.
func shape(r rune) rune {
	if r >= 0x80 && !printable.Rune(r) {
		return -1
	}
	return r
}
