package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// W1, C3: a message ends with LF; a line above its limit is skipped, whatever the size of
// the buffer is.
func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		name, in string
		want     []string // "!" for a line that is too long
	}{
		{"empty", "", nil},
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"no LF at the end", "a\nb", []string{"a", "b"}},
		{"blank lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"CR stays", "a\r\n", []string{"a\r"}},
		{"limit", long[:100_000] + "\nb\n", []string{long[:100_000], "b"}},
		{"above the limit", long[:100_001] + "\nb\n", []string{"!", "b"}},
		{"far above the limit", long + long + "\nb\n", []string{"!", "b"}},
		{"above the limit and no LF", long, []string{"!"}},
		{"as long as the buffer", long[:readBuffer] + "\nb", []string{long[:readBuffer], "b"}},
		{"one less than the buffer", long[:readBuffer-1] + "\nb", []string{long[:readBuffer-1], "b"}},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in), "halves": iotest.HalfReader(strings.NewReader(tt.in)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			var got []string
			lines := NewLineReader(r, 100_000)
			for {
				line, err := lines.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if _, long := errors.AsType[*LongLineError](err); long {
					line = []byte("!")
				} else if err != nil {
					t.Fatalf("%s, %s: %v", tt.name, name, err)
				}
				got = append(got, string(line))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") || len(got) != len(tt.want) {
				t.Errorf("%s, %s: got %d lines, want %d", tt.name, name, len(got), len(tt.want))
			}
		}
	}
}

// chunks records the number of bytes of each write.
type chunks struct {
	bytes.Buffer
	largest, writes int
}

func (c *chunks) Write(p []byte) (int, error) {
	c.largest = max(c.largest, len(p))
	c.writes++
	return c.Buffer.Write(p)
}

// W7: answers are written in pieces.
func TestLineWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out chunks
		w := NewLineWriter(&out, nil)
		want := ""
		for i := range 100 {
			line := strings.Repeat("x", i*100)
			if err := w.Send([]byte(line)); err != nil {
				t.Fatal(err)
			}
			want += line + "\n"
		}
		w.Close()
		<-w.done
		if out.String() != want {
			t.Errorf("%d bytes were written, want %d", out.Len(), len(want))
		}
		if out.largest > 8192 {
			t.Errorf("%d bytes were written at once, want at most 8192", out.largest)
		}
		if err := w.Send([]byte("late")); err == nil {
			t.Error("send after close was taken")
		}
	})
}

// A LineWriter to which nothing is sent has no goroutine, and writes again when a line is
// sent.
func TestIdleLineWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out chunks
		w := NewLineWriter(&out, nil)
		for i := range 3 {
			for range 5 { // the pauses are shorter than writerStays
				if err := w.Send([]byte("line")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(writerStays / 2) // time of the synctest bubble
				synctest.Wait()
				if w.mu.Lock(); !w.writing || len(w.buf) > 0 {
					t.Errorf("in use: writing %v, %d bytes wait", w.writing, len(w.buf))
				}
				w.mu.Unlock()
			}
			time.Sleep(3 * writerStays)
			synctest.Wait()
			if w.mu.Lock(); w.writing || w.buf != nil {
				t.Errorf("idle: writing %v, a buffer of %d bytes", w.writing, cap(w.buf))
			}
			w.mu.Unlock()
			if want := strings.Repeat("line\n", 5*(i+1)); out.String() != want {
				t.Errorf("got %q, want %q", out.String(), want)
			}
		}
		w.Close()
		<-w.Done()
		w.Close()
		if err := w.Send([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("send after close: %v", err)
		}
	})
}

// A write that fails is reported once, and the lines that wait are lost.
func TestFailedLineWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out := io.Pipe()
		why := make(chan error, 2)
		w := NewLineWriter(out, func(err error) { why <- err })
		for range 3 {
			if err := w.Send([]byte("line")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		r.Close()
		<-w.Gone()
		<-w.Done()
		w.Close()
		if err := <-why; !errors.Is(err, io.ErrClosedPipe) || len(why) > 0 || !errors.Is(w.Err(), err) {
			t.Errorf("got %v, and %d more", err, len(why))
		}
	})
}

// TestSlowClient checks that a client that does not read blocks answers but not progress,
// and uses no more memory than the backlog and one line.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stuck := io.Pipe()
		w := NewLineWriter(stuck, nil)
		line := bytes.Repeat([]byte("x"), 100_000)
		sent := make(chan int, 100)
		go func() {
			defer close(sent)
			for i := range 50 {
				if w.Send(line) != nil {
					return
				}
				sent <- i
			}
		}()
		synctest.Wait()
		if n := len(sent); n < 10 || n > 24 {
			t.Errorf("%d lines of 100 kB were taken before the client read, want 1 to 2 MiB", n)
		}
		if err := w.Offer(line); err != nil {
			t.Errorf("offer: %v", err)
		}
		r.Close()
		for range sent {
		}
		if err := w.Send(line); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("send to a client that is gone: %v", err)
		}
		<-w.done
	})
}

func TestCheckJSONAgainstTheStandard(t *testing.T) {
	for _, text := range seeds {
		compare(t, []byte(text))
	}
	// Small changes of valid texts find the edges of the grammar.
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		text := []byte(seeds[rnd.IntN(len(seeds))])
		if len(text) == 0 {
			continue
		}
		for range 1 + rnd.IntN(3) {
			const alphabet = `{}[]",:\ntfu0123e.-+ E` + "\x00\xff\t"
			text[rnd.IntN(len(text))] = alphabet[rnd.IntN(len(alphabet))]
		}
		compare(t, text)
	}
}

var seeds = []string{
	``, ` `, `1`, `-0`, `01`, `1.`, `.5`, `1e5`, `1E+05`, `"`, `""`, `"\u12"`, `"\ud800"`, `true`, `tru`, `nul`, `[]`, `[1,]`, `[,1]`,
	`{}`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":{"b":[1,2,{"c":null}]}}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[1] 2`,
	`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"a":11}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\\\"b"},"_meta":{"progressToken":7}}}`,
	` { "jsonrpc" : "2.0" , "id" : "x" , "method" : "ping" } `,
}

// compare checks CheckJSON against encoding/json, Members against the values that
// encoding/json decodes, and RequestID against the id that ParseMessage reads.
func compare(t *testing.T, text []byte) {
	t.Helper()
	err := CheckJSON(text, 1000)
	if _, dup := errors.AsType[*DuplicateKeyError](err); dup {
		return
	}
	valid := json.Valid(text) && utf8.Valid(text)
	if (err == nil) != valid {
		t.Errorf("checkJSON(%q) = %v; valid is %v", text, err, valid)
	}
	var want map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &want) != nil {
		return
	}
	if m, bad := ParseMessage(text); bad == nil && m.IsRequest() && !bytes.Equal(RequestID(text), m.ID) {
		t.Errorf("requestID(%q) = %q, want %q", text, RequestID(text), m.ID)
	}
	got := map[string]json.RawMessage{}
	Members(bytes.TrimSpace(text), func(name, value []byte) bool {
		got[string(name)] = value
		return true
	})
	if len(got) != len(want) {
		t.Errorf("members(%q) found %d, want %d", text, len(got), len(want))
	}
	for name, value := range want {
		if !bytes.Equal(got[name], value) {
			t.Errorf("members(%q)[%q] = %q, want %q", text, name, got[name], value)
		}
	}
}

// encoding/json reads the text that AppendQuoted wrote as it was.
func TestAppendQuoted(t *testing.T) {
	for _, text := range []string{"", "a", "a\"\\/\n\r\t\x00\x1f\x7f", "é\u2028\u202e<&>", "a\xffb"} {
		var got string
		quoted := AppendQuoted([]byte(" "), text)
		if err := json.Unmarshal(quoted, &got); err != nil || got != strings.ReplaceAll(text, "\xff", "\ufffd") {
			t.Errorf("%q is written %s: got %q, %v", text, quoted, got, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s + "\n" + s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := NewLineReader(iotest.HalfReader(bytes.NewReader(text)), 100)
		n := 0
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			n++
			if _, long := errors.AsType[*LongLineError](err); long {
				continue
			}
			if err != nil || len(line) > 100 || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %d is %q, %v", n, line, err)
			}
			compare(t, line)
		}
		want := bytes.Count(text, []byte("\n"))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			want++
		}
		if n != want {
			t.Fatalf("%d lines, want %d", n, want)
		}
	})
}

func TestDepth(t *testing.T) {
	for meta, want := range map[string]int{
		``: 0, `{}`: 0, `{"belljar.dev/depth":3}`: 3, `{"belljar.dev/depth":-1}`: 0, `{"belljar.dev/depth":"3"}`: 0,
		`{"belljar.dev/depth":1e9}`: 0, `[]`: 0,
	} {
		if got := Depth([]byte(meta)); got != want {
			t.Errorf("Depth(%s) = %d, want %d", meta, got, want)
		}
	}
}
