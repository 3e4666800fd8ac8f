package sandbox

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestClosers(t *testing.T) {
	var c closers
	var order, text strings.Builder
	bad := errors.New("bad")
	c.do(func() { order.WriteString("1") })
	c.add(func() error { order.WriteString("2"); return bad })
	c.add(logged(slog.New(slog.NewTextHandler(&text, nil)), "release three", func() error { order.WriteString("3"); return errors.New("worse") }))
	if err := c.close(); !errors.Is(err, bad) || strings.Contains(err.Error(), "worse") {
		t.Errorf("close: got %v, want only %v", err, bad)
	}
	if got := order.String(); got != "321" {
		t.Errorf("released in the order %s, want 321", got)
	}
	if got := text.String(); !strings.Contains(got, "release three") || !strings.Contains(got, "worse") {
		t.Errorf("logged %q, want what failed and why", got)
	}
	if err := c.close(); err != nil || order.Len() != 3 {
		t.Errorf("the second close: got %v and released %d, want nothing more", err, order.Len()-3)
	}
}
