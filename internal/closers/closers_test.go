package closers

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestStack(t *testing.T) {
	var c Stack
	var order, text strings.Builder
	bad := errors.New("bad")
	c.Do(func() { order.WriteString("1") })
	c.Add(func() error { order.WriteString("2"); return bad })
	c.Add(Logged(slog.New(slog.NewTextHandler(&text, nil)), "release three", func() error { order.WriteString("3"); return errors.New("worse") }))
	if err := c.Close(); !errors.Is(err, bad) || strings.Contains(err.Error(), "worse") {
		t.Errorf("close: got %v, want only %v", err, bad)
	}
	if got := order.String(); got != "321" {
		t.Errorf("released in the order %s, want 321", got)
	}
	if got := text.String(); !strings.Contains(got, "release three") || !strings.Contains(got, "worse") {
		t.Errorf("logged %q, want what failed and why", got)
	}
	if err := c.Close(); err != nil || order.Len() != 3 {
		t.Errorf("the second close: got %v and released %d, want nothing more", err, order.Len()-3)
	}
}

// As with defer, the other releases run if one of them panics, and the panic continues.
func TestStackReleasesAllInAPanic(t *testing.T) {
	var c Stack
	order := ""
	c.Do(func() { order += "1" })
	c.Do(func() { panic("two") })
	c.Do(func() { order += "3" })
	func() {
		defer func() {
			if p := recover(); p != "two" {
				t.Errorf("close panicked with %v, want two", p)
			}
		}()
		_ = c.Close()
	}()
	if order != "31" {
		t.Errorf("released %s, want 31", order)
	}
}
