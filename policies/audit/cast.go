package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// maxHeld bounds the bytes of output that wait for the end of their line.
const maxHeld = 16 << 10

// Screen is the terminal that a shell writes to. The zero value means that the
// shell has no terminal.
type Screen struct {
	Width, Height int
	Term          string // kind of the terminal, the value of TERM
}

// Cast records what a command shows, in a file beside the log that players of
// asciicast v2 play (docs.asciinema.org/manual/asciicast/v2). Secrets are taken
// out before anything is written: for that, output waits until its line ends. Its
// methods are safe for concurrent use; Close ends it.
type Cast struct {
	r        *redactor
	terminal bool
	began    time.Time

	mu sync.Mutex
	recording
	held   []byte  // guarded by mu: output that waits for the end of its line
	pieces []piece // guarded by mu: when each part of held came
}

// piece is a part of the output that came at one time.
type piece struct {
	at  time.Duration // time since the beginning of the recording
	end int           // offset in held at which the piece ends
}

// Cast begins the recording of a call. The caller closes it.
func (l *Log) Cast(callID string, s Screen) (*Cast, error) {
	to, err := l.recording(callID, castEnd)
	if err != nil {
		return nil, err
	}
	c := &Cast{r: &l.red, terminal: s.Width > 0, began: time.Now(), recording: to}
	head := struct {
		Version   int               `json:"version"`
		Width     int               `json:"width"`
		Height    int               `json:"height"`
		Timestamp int64             `json:"timestamp"`
		Title     string            `json:"title"`
		Env       map[string]string `json:"env,omitempty"`
	}{2, s.Width, s.Height, c.began.Unix(), callID, nil}
	if !c.terminal {
		head.Width, head.Height = 120, 40
	}
	if s.Term != "" {
		head.Env = map[string]string{"TERM": s.Term}
	}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record call: %w", err), to.file.Close())
	}
	c.mu.Lock()
	c.put(append(text, '\n'))
	c.mu.Unlock()
	return c, nil
}

// Write records output. It never returns an error to the command: output that
// cannot be written, or is beyond the bound, is left out, and Recorded says so.
func (c *Cast) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return len(p), nil
	}
	if c.cut != "" {
		c.lost += int64(len(p))
		return len(p), nil
	}
	c.held = append(c.held, p...)
	c.pieces = append(c.pieces, piece{time.Since(c.began), len(c.held)})
	at := slices.Max([]int{lastByte(c.held, '\n'), lastByte(c.held, '\r')}) + 1
	if open := strings.LastIndex(string(c.held[:at]), "-----BEGIN "); open >= 0 && !strings.Contains(string(c.held[open:at]), "-----END ") {
		at = open // a private key has many lines, which wait for the last one
	}
	if len(c.held) > maxHeld {
		at = len(c.held)
	}
	c.release(at)
	return len(p), nil
}

func lastByte(b []byte, c byte) int { return strings.LastIndexByte(string(b), c) }

// release writes the first n bytes of held to the recording. The caller holds c.mu.
func (c *Cast) release(n int) {
	if n == 0 {
		return
	}
	plain := string(c.held[:n])
	last := c.pieces[0].at
	if clean := c.r.text(plain); clean != plain {
		for _, p := range c.pieces {
			if last = p.at; p.end >= n {
				break
			}
		}
		c.event(last, clean, n)
	} else {
		// No secret was taken out, so each piece is shown at its own time.
		from := 0
		for _, p := range c.pieces {
			to := min(p.end, n)
			for to < n && to > from && !utf8.RuneStart(plain[to]) {
				to-- // the bytes of this character came in two pieces
			}
			if to > from {
				c.event(p.at, plain[from:to], to-from)
			}
			if from = to; p.end >= n {
				break
			}
		}
	}
	c.held = append(c.held[:0], c.held[n:]...)
	left := c.pieces[:0]
	for _, p := range c.pieces {
		if p.end > n {
			left = append(left, piece{p.at, p.end - n})
		}
	}
	c.pieces = left
}

// Resize records that the terminal has another size.
func (c *Cast) Resize(width, height int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return
	}
	c.release(len(c.held))
	c.put(fmt.Appendf(nil, "[%.6f, \"r\", \"%dx%d\"]\n", time.Since(c.began).Seconds(), width, height))
}

// event writes the text that was shown at a time. output is the number of bytes of the
// command's output that the text stands for: text has no secrets, and may be longer or
// shorter. The caller holds c.mu.
func (c *Cast) event(at time.Duration, text string, output int) {
	if !c.terminal { // a terminal would add the carriage returns
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	b := strconv.AppendFloat([]byte{'['}, at.Seconds(), 'f', 6, 64)
	b = appendString(append(b, `, "o", `...), text)
	if !c.put(append(b, ']', '\n')) {
		c.lost += int64(output)
	}
}

// Close ends the recording. It may be called twice.
func (c *Cast) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		c.release(len(c.held))
	}
	c.end()
	return nil
}

// Recorded returns the result of the recording, or false if the recording has not ended.
func (c *Cast) Recorded() (Recorded, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result()
}
