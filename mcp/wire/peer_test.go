package wire

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// The id of an answer is found in a line that was refused, if it is certain.
func TestAnswerID(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}`, "7"},
		{`{"result":{"id":8},"id":"x","jsonrpc":"2.0"}`, `"x"`},
		{`{"error":{"code":1},"id":7}`, "7"},
		{`{"id":7,"method":"x"}`, ""},
		{`{"id":7,"method":"x","result":{}}`, ""},
		{`{"id":7}`, ""},
		{`{"id":7,"id":8,"result":{}}`, ""},
		{`{"id":7,"result":{"a":"x`, ""},
		{`{"id":null,"result":{}}`, ""},
		{`[{"id":7,"result":{}}]`, ""},
	} {
		if got := string(AnswerID([]byte(tt.line))); got != tt.want {
			t.Errorf("AnswerID(%s) = %s, want %s", tt.line, got, tt.want)
		}
	}
	lines := NewLineReader(strings.NewReader(`{"id":7,"result":"`+strings.Repeat("x", 200_000)+"\"}\n"), 100)
	_, err := lines.Next()
	if long, ok := errors.AsType[*LongLineError](err); !ok || string(long.Answer) != "7" || long.ID != nil {
		t.Errorf("a long answer: got %v", err)
	}
}

func TestParseResponse(t *testing.T) {
	for _, tt := range []struct{ text, result, failure string }{
		{`{"jsonrpc":"2.0","id":1,"result":{"a": 1}}`, `{"a": 1}`, ""},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, "", `{"code":1}`},
		{`{"jsonrpc":"2.0","result":7,"error":null}`, "7", "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","result":7}`, "", ""},
	} {
		m, bad := ParseMessage([]byte(tt.text))
		if bad != nil || string(m.Result) != tt.result || string(m.Failure) != tt.failure {
			t.Errorf("%s: got %q, %q, %v", tt.text, m.Result, m.Failure, bad)
		}
	}
}

// If a reader is slow, SendContext waits until its context ends, Try does not wait, and
// Insist queues the line all the same.
func TestLineWriterIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out := io.Pipe()
		w := NewLineWriter(out, nil)
		line := []byte(strings.Repeat("x", backlog))
		for _, want := range []bool{true, true, false, false} { // the first line is being written, the second one waits
			if queued, err := w.Try(append(line, 'x')); queued != want || err != nil {
				t.Errorf("Try: %v, %v, want %v", queued, err, want)
			}
			synctest.Wait()
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		sent := make(chan error, 2)
		go func() { sent <- w.SendContext(ctx, []byte("never")) }()
		synctest.Wait()
		cancel(gone)
		if err := <-sent; !errors.Is(err, gone) {
			t.Errorf("SendContext: %v", err)
		}
		if err := w.Insist([]byte("cancel")); err != nil {
			t.Error(err)
		}
		go func() { sent <- w.SendContext(t.Context(), []byte("later")) }()
		synctest.Wait()
		text := make(chan string)
		go func() {
			all, _ := io.ReadAll(r)
			text <- string(all)
		}()
		if err := <-sent; err != nil {
			t.Error(err)
		}
		w.Close()
		<-w.Done()
		out.Close()
		if all := <-text; !strings.HasSuffix(all, "x\ncancel\nlater\n") || strings.Contains(all, "never") {
			t.Errorf("the reader got …%s", all[len(all)-20:])
		}
		if err := w.SendContext(t.Context(), nil); err == nil {
			t.Error("a line was queued after Close")
		}
	})
}
