package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/signal"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
other players. Only calls at the audit level full are recorded. cast fails, and
prints nothing, if the SHA-256 of the file is not the one in the log.
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
		Long: `play shows the output of a command at its original speed, with pauses of at most
--idle. Of the sequences that control a terminal it passes on those that draw: they
move the cursor, colour, erase and scroll. It leaves out all others.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if speed <= 0 || speed > maxSpeed || math.IsNaN(speed) || idle < 0 {
				return usage("audit play: want a --speed above 0 and at most %d, and an --idle of 0 or more", maxSpeed)
			}
			text, cut, err := a.cast(c.Context(), args[0])
			if err != nil {
				return failure(err)
			}
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			// play writes only what tame leaves, so it may use the terminal directly.
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

// maxSpeed is the highest --speed.
const maxSpeed = 1000000

// cast returns the recording of a call, if it agrees with the log. cut says why the
// recording is incomplete, and how much is missing if that is known; it is empty if the
// recording is complete.
func (a *auditing) cast(ctx context.Context, callID string) (text []byte, cut string, err error) {
	dir, err := a.dir()
	if err != nil {
		return nil, "", err
	}
	text, of, err := audit.ReadCast(ctx, dir, callID, nil)
	return text, of.Incomplete(), err
}

// play writes the output of a recording with the recorded pauses, divided by speed and each
// at most idle. At the end it undoes what the recording has set in the terminal.
func play(ctx context.Context, out io.Writer, text []byte, speed float64, idle time.Duration) error {
	var t tame
	err := playEvents(ctx, out, &t, text, speed, idle)
	if _, failed := io.WriteString(out, t.end()); err == nil && failed != nil {
		err = fmt.Errorf("play recording: %w", failed)
	}
	return err
}

func playEvents(ctx context.Context, out io.Writer, t *tame, text []byte, speed float64, idle time.Duration) error {
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, audit.MaxRecordingText)
	lines.Scan() // the header
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
		if event[1] != "o" { // the next output waits for this pause too
			continue
		}
		wait := idle
		if seconds := (at - last) / speed; seconds < idle.Seconds() {
			wait = time.Duration(seconds * float64(time.Second))
		}
		last = at
		if wait > 0 && pause.For(ctx, wait) != nil {
			return nil //nolint:nilerr // a person has stopped the player
		}
		if _, err := io.WriteString(out, t.text(shows)); err != nil {
			return fmt.Errorf("play recording: %w", err)
		}
	}
	return lines.Err()
}

// tame leaves, of the output of a command, only what draws on a terminal: text, and the
// sequences listed in [tame.sequence] and [tame.escape]. It removes all others, so that the
// terminal answers nothing, and later sends and does nothing else than before. Above all it
// removes control strings (ECMA-48: DCS, OSC, SOS, PM and APC), which set the clipboard or
// the title. The zero value is ready to use.
type tame struct {
	in   tameState
	held []byte // control sequence or string so far, without its beginning
	out  []byte

	coloured bool     // whether the last colours that were passed on are not the usual ones
	margins  bool     // whether only a part of the screen scrolls
	set      []string // private modes that are not as usual
}

// tameState is the part of the output in which tame is.
type tameState int

const (
	inText       tameState = iota
	inEscape               // after an ESC
	inDesignator           // after an ESC and an intermediate byte: a sequence such as ESC ( B
	inSequence             // in a control sequence, after CSI
	inString               // in a control string
)

// Bounds of the sequences and strings that tame keeps until they end.
const (
	maxParameters = 64      // bytes of a control sequence; no longer one is passed on
	maxDigits     = 4       // digits of a parameter: a large count can keep a terminal busy (CVE-2012-2738)
	maxString     = 4 << 10 // bytes of a control string; a longer one is text
)

// Control characters of sequences.
const (
	charBEL = 0x07
	charCAN = 0x18
	charSUB = 0x1a
	charESC = 0x1b
	charST  = 0x9c // ends a control string, like ESC \
)

// text returns what is left of the next piece of the output. A sequence may be cut into
// several pieces.
func (t *tame) text(s string) string {
	t.out = t.out[:0]
	for _, r := range s {
		t.next(r)
	}
	return string(t.out)
}

// end returns what is to be written after the last piece: the text of a control string
// without an end, and sequences that undo what was set.
func (t *tame) end() string {
	t.out = t.out[:0]
	if t.in == inString {
		t.release()
	}
	if t.margins || slices.Contains(t.set, originMode) {
		// Both of the first two sequences move the cursor to the top.
		t.out = append(t.out, "\x1b[?"+originMode+"l\x1b[r\x1b[9999;1H\r\n"...)
	}
	for _, mode := range t.set {
		if mode == originMode {
			continue
		}
		usual, _ := usualState(mode)
		t.out = append(t.out, "\x1b[?"+mode+string(usual)...)
	}
	if t.coloured {
		t.out = append(t.out, "\x1b[m"...)
	}
	t.in, t.coloured, t.margins, t.set = inText, false, false, nil
	return string(t.out)
}

// next looks at one character. As in a terminal, a control character within a sequence acts
// at once, and CAN, SUB or an ESC ends the sequence or string before it.
func (t *tame) next(r rune) {
	switch {
	case r == charESC:
		t.in, t.held = inEscape, t.held[:0]
	case r == charCAN || r == charSUB:
		t.in, t.held = inText, t.held[:0]
	case t.in == inString:
		t.inString(r)
	case r >= 0x80:
		t.in = inText
		t.draw(r)
	case r < 0x20 || r == 0x7f:
		t.draw(r)
	case t.in == inText:
		t.draw(r)
	case t.in == inEscape:
		t.escape(byte(r))
	case t.in == inDesignator:
		if r >= 0x30 {
			t.in = inText
		}
	case r >= 0x40:
		t.sequence(byte(r))
	case len(t.held) <= maxParameters:
		t.held = append(t.held, byte(r))
	}
}

// draw passes a character on. It leaves out control characters other than those that move
// the cursor, and characters outside of ASCII that have no shape: C1 controls, with which a
// sequence may also begin, and marks that hide or reorder text.
func (t *tame) draw(r rune) {
	switch {
	case r >= 0x80 && !printable.Rune(r), r == 0x7f, r < 0x20 && !strings.ContainsRune("\r\n\t\b", r):
	default:
		t.out = utf8.AppendRune(t.out, r)
	}
}

// inString looks at a character of a control string.
func (t *tame) inString(r rune) {
	if r == charBEL || r == charST {
		t.in, t.held = inText, t.held[:0]
		return
	}
	if t.held = utf8.AppendRune(t.held, r); len(t.held) > maxString {
		t.release()
	}
}

// release makes the control string so far text. A string without an end would hide the rest
// of the recording.
func (t *tame) release() {
	for _, r := range string(t.held) {
		t.draw(r)
	}
	t.in, t.held = inText, t.held[:0]
}

// escape looks at the character after an ESC.
func (t *tame) escape(c byte) {
	t.in = inText
	switch {
	case strings.IndexByte("]PX^_", c) >= 0:
		t.in = inString
	case c == '[':
		t.in = inSequence
	case c < 0x30:
		t.in = inDesignator
	case strings.IndexByte("78DEM", c) >= 0: // save and restore the cursor; move it by a line
		t.out = append(t.out, charESC, c)
	}
}

// sequence ends a control sequence and passes it on if it only draws (ECMA-48; xterm,
// ctlseqs). The same final byte often asks a question after a private marker or an
// intermediate byte.
func (t *tame) sequence(final byte) {
	parameters := string(t.held)
	t.in, t.held = inText, t.held[:0]
	numbers, private := strings.CutPrefix(parameters, "?")
	if len(parameters) > maxParameters || !inBounds(numbers) {
		return
	}
	switch {
	case private && (final == 'h' || final == 'l'):
		for mode := range strings.SplitSeq(numbers, ";") {
			t.mode(mode, final)
		}
		return
	case private && final != 'J' && final != 'K': // these two erase selectively
		return
	case final == 'J' && !slices.Contains([]string{"", "0", "1", "2"}, numbers):
		return // 3 erases the lines that have left the screen, and they are the person's
	case final == 'T' && strings.Contains(numbers, ";"):
		return // tracks the mouse
	case final == 'm':
		t.coloured = numbers != "" && numbers != "0"
	case final == 'r':
		t.margins = numbers != ""
	case strings.IndexByte("ABCDEFGHJKLMPSTXZ@bdf", final) < 0:
		return
	}
	t.out = append(t.out, "\x1b["+parameters+string(final)...)
}

// inBounds reports whether a text consists of the parameters of a sequence, each with at
// most maxDigits digits.
func inBounds(numbers string) bool {
	digits := 0
	for _, c := range []byte(numbers) {
		switch {
		case c == ';' || c == ':':
			digits = 0
		case c < '0' || c > '9':
			return false
		default:
			digits++
		}
		if digits > maxDigits {
			return false
		}
	}
	return true
}

// mode passes on a change of a private mode, if the mode only changes how the terminal
// draws. The others are for the mouse, the keys, the focus and more: they change what the
// terminal sends.
func (t *tame) mode(mode string, state byte) {
	usual, draws := usualState(mode)
	if !draws {
		return
	}
	t.set = slices.DeleteFunc(t.set, func(other string) bool { return other == mode })
	if state != usual {
		t.set = append(t.set, mode)
	}
	t.out = append(t.out, "\x1b[?"+mode+string(state)...)
}

// originMode is the number of the mode in which lines are counted from the upper margin.
const originMode = "6"

// usualState returns the final byte that sets a private mode to the state in which a
// terminal begins. It returns false if a recording may not change the mode.
func usualState(mode string) (byte, bool) {
	switch mode {
	case "5", originMode, "47", "1047", "1048", "1049": // reverse video, origin, the other screen
		return 'l', true
	case "7", "25": // line wrapping, the cursor
		return 'h', true
	}
	return 0, false
}
