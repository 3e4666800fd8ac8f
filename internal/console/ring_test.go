package console

import (
	"fmt"
	"testing"
	"time"
)

// A reader gets every event once, or is notified that some events are lost.
func TestRing(t *testing.T) {
	r := newRing(time.UnixMicro(100))
	read := func(after int64) (ids string, gap bool, now int64) {
		some, gap, now, _, _ := r.after(after)
		for _, e := range some {
			ids += e.ID + " "
		}
		return ids, gap, now
	}
	if ids, gap, now := read(99); ids != "" || gap || now != 99 {
		t.Errorf("an empty ring: %q, %v, %d", ids, gap, now)
	}
	for _, early := range []int64{-1, 0, 98, 100, 1 << 60} { // numbers of an earlier process, or of no process
		if _, gap, _ := read(early); !gap {
			t.Errorf("behind %d there is no gap", early)
		}
	}
	for i := range 3 {
		r.add(thing{kind: "box", id: fmt.Sprint(i)})
	}
	if ids, gap, _ := read(99); ids != "0 1 2 " || gap {
		t.Errorf("got %q, %v", ids, gap)
	}
	if ids, gap, _ := read(101); ids != "2 " || gap {
		t.Errorf("got %q, %v", ids, gap)
	}
	for i := range ringSize {
		r.add(thing{kind: "box", id: fmt.Sprint(i)})
	}
	if _, gap, now := read(101); !gap || now != 102+ringSize {
		t.Errorf("after as many as are kept: a gap: %v, now %d", gap, now)
	}
	some, gap, now, _, _ := r.after(102)
	if len(some) != maxBatch || gap || some[0].ID != "0" {
		t.Errorf("behind the oldest: %d events, %v", len(some), gap)
	}
	seen := int64(102)
	for seen < now {
		some, gap, _, _, _ := r.after(seen)
		if gap || len(some) == 0 {
			t.Fatal(seen, gap)
		}
		for _, e := range some {
			if e.Seq != seen+1 {
				t.Fatalf("%d follows %d", e.Seq, seen)
			}
			seen = e.Seq
		}
	}
	_, _, _, news, _ := r.after(now)
	select {
	case <-news:
		t.Error("there are news before an event")
	default:
	}
	r.end()
	r.end()
	select {
	case <-news:
	default:
		t.Error("the end wakes nobody")
	}
	r.add(thing{kind: "box", id: "late"})
	if _, _, is, _, ended := r.after(now); is != now || !ended {
		t.Error("an ended ring takes events")
	}
	var leave []func()
	for range maxStreams {
		f, ok := r.enter(sha256sum{1})
		if !ok {
			t.Fatal("no room")
		}
		leave = append(leave, f)
	}
	if _, ok := r.enter(sha256sum{1}); ok {
		t.Error("a token has one stream too many")
	}
	if _, ok := r.enter(sha256sum{2}); !ok {
		t.Error("another token has no stream")
	}
	leave[0]()
	if _, ok := r.enter(sha256sum{1}); !ok || r.streams() != maxStreams+1 {
		t.Errorf("%d streams", r.streams())
	}
}
