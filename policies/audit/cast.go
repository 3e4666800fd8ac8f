package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// Bounds of recordings.
const (
	castDir      = "casts"  // in the directory of the log
	maxCast      = 16 << 20 // bytes of one recording
	maxCasts     = 1000     // recordings that are kept
	maxCastBytes = 1 << 30  // of all of them
	maxHeld      = 16 << 10 // bytes of output that wait for the end of their line
	pruneEvery   = 32       // recordings
)

// Screen is the terminal that a shell writes to. The zero value means that the
// shell has no terminal.
type Screen struct {
	Width, Height int
	Term          string // kind of the terminal, the value of TERM
}

// Recorded is the result of a recording.
type Recorded struct {
	File   string `json:"file"` // in the directory of the log
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Cut    string `json:"cut,omitempty"` // why it does not have all
}

// Cast records what a command shows, in a file beside the log that players of
// asciicast v2 play (docs.asciinema.org/manual/asciicast/v2). Secrets are taken
// out before anything is written: for that, output waits until its line ends. Its
// methods are safe for concurrent use; Close ends it.
type Cast struct {
	r        *redactor
	name     string
	terminal bool
	began    time.Time

	mu     sync.Mutex
	file   *os.File // guarded by mu; nil once it is closed
	sum    summer   // guarded by mu: of the file
	size   int64    // guarded by mu
	held   []byte   // guarded by mu: output that waits for the end of its line
	pieces []piece  // guarded by mu: how it came
	cut    string   // guarded by mu
}

// summer is what sha256.New returns.
type summer interface {
	Write(p []byte) (int, error)
	Sum(to []byte) []byte
}

// piece is output as it came at one time.
type piece struct {
	at  time.Duration // since the beginning
	end int           // of it in held
}

// Cast begins the recording of a call. The caller closes it.
func (l *Log) Cast(callID string, s Screen) (*Cast, error) {
	dir := filepath.Join(l.cfg.Dir, castDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("record call: %w", err)
	}
	if l.casts.Add(1)%pruneEvery == 1 {
		pruneCasts(dir)
	}
	name := filepath.Join(castDir, filepath.Base(callID)+".cast")
	f, err := os.OpenFile(filepath.Join(l.cfg.Dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record call: %w", err)
	}
	c := &Cast{
		r: &l.red, name: name, terminal: s.Width > 0, began: time.Now(),
		file: f, sum: sha256.New(),
	}
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
		return nil, errors.Join(fmt.Errorf("record call: %w", err), f.Close())
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
	if c.file == nil || c.cut != "" {
		return len(p), nil
	}
	c.held = append(c.held, p...)
	c.pieces = append(c.pieces, piece{time.Since(c.began), len(c.held)})
	at := slices.Max([]int{lastByte(c.held, '\n'), lastByte(c.held, '\r')}) + 1
	if open := strings.LastIndex(string(c.held[:at]), "-----BEGIN "); open >= 0 && !strings.Contains(string(c.held[open:at]), "-----END ") {
		at = open // a key stands on many lines
	}
	if len(c.held) > maxHeld {
		at = len(c.held)
	}
	c.release(at)
	return len(p), nil
}

func lastByte(b []byte, c byte) int { return strings.LastIndexByte(string(b), c) }

// release writes the first bytes of held. The caller holds c.mu.
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
		c.event(last, clean)
	} else {
		// As nothing was taken out, it can be shown as it came.
		from := 0
		for _, p := range c.pieces {
			to := min(p.end, n)
			for to < n && to > from && !utf8.RuneStart(plain[to]) {
				to-- // a character that came in two
			}
			if to > from {
				c.event(p.at, plain[from:to])
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

// event writes what was shown at a time. The caller holds c.mu.
func (c *Cast) event(at time.Duration, text string) {
	if !c.terminal { // which would put the carriage returns in
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	b := strconv.AppendFloat([]byte{'['}, at.Seconds(), 'f', 6, 64)
	b = appendString(append(b, `, "o", `...), text)
	c.put(append(b, ']', '\n'))
}

// put writes a line of the file. The caller holds c.mu.
func (c *Cast) put(line []byte) {
	if c.cut != "" {
		return
	}
	if c.size+int64(len(line)) > maxCast {
		c.cut = fmt.Sprintf("it would be larger than %d MiB", maxCast>>20)
		return
	}
	n, err := c.file.Write(line)
	_, _ = c.sum.Write(line[:n]) // never fails
	c.size += int64(n)
	if err != nil {
		c.cut = err.Error()
	}
}

// Close ends the recording. It may be called twice.
func (c *Cast) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	c.release(len(c.held))
	if err := errors.Join(c.file.Sync(), c.file.Close()); err != nil && c.cut == "" {
		c.cut = err.Error()
	}
	c.file = nil
	return nil
}

// Recorded returns the result of the recording; false says that the recording
// goes on.
func (c *Cast) Recorded() (Recorded, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		return Recorded{}, false
	}
	return Recorded{File: c.name, SHA256: hex.EncodeToString(c.sum.Sum(nil)), Bytes: c.size, Cut: c.cut}, true
}

// pruneCasts deletes the oldest recordings beyond those that are kept. What the
// log says of them stays.
func pruneCasts(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	all, err := d.ReadDir(maxFiles)
	if err != nil && len(all) == 0 {
		return
	}
	var infos []fs.FileInfo
	var bytes int64
	for _, e := range all {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".cast") {
			infos = append(infos, info)
			bytes += info.Size()
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for len(infos) > maxCasts-pruneEvery || bytes > maxCastBytes {
		bytes -= infos[0].Size()
		_ = os.Remove(filepath.Join(dir, infos[0].Name())) // the next one tries again
		infos = infos[1:]
	}
}
