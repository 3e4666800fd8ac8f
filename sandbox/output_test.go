package sandbox

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
)

// fill writes n bytes, which differ from line to line, and returns them.
func fill(o *Output, n int) []byte {
	var all []byte
	for len(all) < n {
		line := []byte(strings.Repeat(string(rune('a'+len(all)/10%26)), 9) + "\n")
		line = line[:min(len(line), n-len(all))]
		o.add(Stdout, line)
		all = append(all, line...)
	}
	return all
}

func TestOutputKeepsAll(t *testing.T) {
	o := newOutput(1<<20, newSpool(t.TempDir(), 1<<30))
	defer o.Close()
	all := fill(o, 300_000) // beyond the head, within the bound
	var got []byte
	for next := int64(0); ; {
		text, n, skipped, err := o.Read(next, 7919)
		if err != nil || skipped != 0 {
			t.Fatalf("read at %d: skipped %d, %v", next, skipped, err)
		}
		if len(text) == 0 {
			break
		}
		got, next = append(got, text...), n
	}
	if !bytes.Equal(got, all) {
		t.Errorf("read back %d bytes that differ from the %d written", len(got), len(all))
	}
}

func TestOutputForgetsTheMiddle(t *testing.T) {
	const bound = 100_000
	o := newOutput(bound, newSpool(t.TempDir(), 1<<30))
	defer o.Close()
	all := fill(o, 1_000_000)
	if o.Size() != int64(len(all)) {
		t.Errorf("size %d, want %d", o.Size(), len(all))
	}
	text, next, skipped, err := o.Read(0, bound)
	if err != nil || skipped != 0 || !bytes.Equal(text, all[:outputHead]) || next != outputHead {
		t.Errorf("the head: %d bytes, next %d, skipped %d, %v", len(text), next, skipped, err)
	}
	text, next, skipped, err = o.Read(next, bound)
	kept := int64(bound - outputHead)
	if err != nil || skipped != int64(len(all))-outputHead-kept || !bytes.Equal(text, all[int64(len(all))-kept:]) || next != int64(len(all)) {
		t.Errorf("the tail: %d bytes, next %d, skipped %d, %v", len(text), next, skipped, err)
	}
	c, err := o.Cut(1000)
	if err != nil || c.Total != int64(len(all)) || c.Dropped != int64(len(all))-1000 || c.At != 200 ||
		!bytes.Equal(c.Text[:200], all[:200]) || !bytes.Equal(c.Text[200:], all[len(all)-800:]) {
		t.Errorf("cut: %d bytes of %d, %d dropped at %d, %v", len(c.Text), c.Total, c.Dropped, c.At, err)
	}
}

func TestOutputSplit(t *testing.T) {
	o := newOutput(1<<20, newSpool(t.TempDir(), 1<<30))
	defer o.Close()
	random := rand.New(rand.NewPCG(3, 4))
	var want [3][]byte
	for range 3000 {
		s := Stdout + Stream(random.IntN(2))
		text := bytes.Repeat([]byte{byte('a' + random.IntN(26))}, 1+random.IntN(20))
		want[s] = append(want[s], text...)
		o.add(s, text)
	}
	out, errs, err := o.Split(1 << 20)
	if err != nil || !bytes.Equal(out.Text, want[Stdout]) || !bytes.Equal(errs.Text, want[Stderr]) {
		t.Errorf("streams of %d and %d bytes, %v; want %d and %d", len(out.Text), len(errs.Text), err, len(want[Stdout]), len(want[Stderr]))
	}
	out, _, err = o.Split(100)
	if err != nil || len(out.Text) != 100 || !bytes.HasPrefix(want[Stdout], out.Text[:20]) || !bytes.HasSuffix(want[Stdout], out.Text[20:]) {
		t.Errorf("cut stream %q, %v", out.Text, err)
	}
	for range 3 * outputSpans {
		o.add(Stdout, []byte("o"))
		o.add(Stderr, []byte("e"))
	}
	if len(o.spans) > outputSpans {
		t.Errorf("%d spans are kept, want at most %d", len(o.spans), outputSpans)
	}
	if out, _, err := o.Split(10); err != nil || string(out.Text) != "oooooooooo" {
		t.Errorf("after many turns: %q, %v", out.Text, err)
	}
}

// A character is not cut in two.
func TestCutRunes(t *testing.T) {
	o := newOutput(1<<20, newSpool(t.TempDir(), 1<<30))
	defer o.Close()
	o.add(Stdout, []byte(strings.Repeat("äöü€", 1000)))
	for limit := 10; limit < 60; limit++ {
		c, err := o.Cut(limit)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(c.Text, '\uFFFD') || !bytes.Equal(c.Text, bytes.ToValidUTF8(c.Text, []byte("?"))) || len(c.Text) > limit {
			t.Errorf("limit %d gives %q", limit, c.Text)
		}
		if c.Total-c.Dropped != int64(len(c.Text)) {
			t.Errorf("limit %d: %d of %d dropped, %d kept", limit, c.Dropped, c.Total, len(c.Text))
		}
	}
}

func TestOutputWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput(1<<20, newSpool(t.TempDir(), 1<<30))
		woken := make(chan error, 1)
		go func() { woken <- o.Wait(t.Context(), 3) }()
		o.add(Stdout, []byte("abc"))
		synctest.Wait()
		select {
		case err := <-woken:
			t.Fatalf("woken too early: %v", err)
		default:
		}
		o.add(Stderr, []byte("d"))
		if err := <-woken; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := o.Wait(ctx, 99); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait gives %v", err)
		}
		o.end()
		if err := o.Wait(t.Context(), 99); err != nil {
			t.Errorf("at the end a wait gives %v", err)
		}
	})
}

func TestOutputClosed(t *testing.T) {
	o := newOutput(1<<20, newSpool(t.TempDir(), 1<<30))
	fill(o, 200_000)
	if err := errors.Join(o.Close(), o.Close()); err != nil {
		t.Fatal(err)
	}
	o.add(Stdout, []byte("late"))
	if _, _, _, err := o.Read(0, 10); !errors.Is(err, ErrClosed) {
		t.Errorf("reading a closed output gives %v, want ErrClosed", err)
	}
}

// If a spool cannot be made, what does not fit is lost, and counted.
func TestOutputWithoutSpool(t *testing.T) {
	o := newOutput(1<<20, newSpool("/nosuch/dir", 1<<30))
	defer o.Close()
	all := fill(o, 200_000)
	c, err := o.Cut(1 << 20)
	if err != nil || c.Dropped != int64(len(all))-outputHead || !bytes.Equal(c.Text, all[:outputHead]) {
		t.Errorf("%d bytes kept, %d dropped, %v", len(c.Text), c.Dropped, err)
	}
}

// The space of outputs on disk is bounded for all of them together, and is released.
func TestOutputsShareASpool(t *testing.T) {
	s := newSpool(t.TempDir(), 100_000)
	one, two := newOutput(1<<20, s), newOutput(1<<20, s)
	defer two.Close()
	fill(one, outputHead+80_000)
	all := fill(two, outputHead+80_000)
	c, err := two.Cut(1 << 20)
	if err != nil || c.Dropped < 60_000 || !bytes.HasPrefix(all, c.Text[:outputHead]) {
		t.Errorf("the second output dropped %d bytes, %v; want what did not fit", c.Dropped, err)
	}
	one.shrink()
	if text, next, _, err := one.Read(0, 1<<20); err != nil || len(text) != outputHead || next != outputHead {
		t.Errorf("a shrunk output gives %d bytes, next %d, %v; want its head", len(text), next, err)
	}
	if _, next, skipped, err := one.Read(outputHead, 10); err != nil || skipped != 80_000 || next != one.Size() {
		t.Errorf("past its head a shrunk output skips %d to %d, %v", skipped, next, err)
	}
	three := newOutput(1<<20, s)
	defer three.Close()
	fill(three, outputHead+70_000)
	if c, err := three.Cut(1 << 20); err != nil || c.Dropped != 0 {
		t.Errorf("after one was shrunk a third dropped %d bytes, %v", c.Dropped, err)
	}
}
