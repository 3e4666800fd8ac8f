package sandbox

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// testWire is a wire and a function that says something at its other end.
func testWire(t *testing.T) (*wire, func(number int)) {
	t.Helper()
	w, theirs, err := newWire()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		theirs.Close()
	})
	return w, func(number int) {
		if _, err := unix.Write(int(theirs.Fd()), binary.NativeEndian.AppendUint64(nil, uint64(number))); err != nil {
			t.Error(err)
		}
	}
}

// numbered is the number that was said.
func numbered(text []byte) int { return int(binary.NativeEndian.Uint64(text)) }

// Who listens hears all that nobody takes the turn for, and nothing that was said
// while turns begin and end is left lying.
func TestTurns(t *testing.T) {
	const rounds = 5000
	w, say := testWire(t)
	heard, listened := make(chan int, 2*rounds), make(chan error, 1)
	go func() {
		listened <- w.listen(func(text []byte, _ []int) error {
			heard <- numbered(text)
			return nil
		})
	}()
	var others sync.WaitGroup
	glimpse := func() { // who takes a turn and hears nothing
		if w.takeTurn() {
			w.endTurn()
		}
	}
	direct := 0
	for n := range rounds {
		others.Go(glimpse)
		if !w.takeTurn() {
			say(2 * n)
		} else {
			direct++
			say(2 * n)
			text, _, err := w.receive()
			if err != nil || numbered(text) != 2*n {
				t.Fatalf("message %d: %d, %v", 2*n, numbered(text), err)
			}
			heard <- 2 * n
			others.Go(w.endTurn) // while the next is being said
		}
		others.Go(glimpse)
		say(2*n + 1)
		for want := 2 * n; want < 2*n+2; want++ {
			if got := <-heard; got != want {
				t.Fatalf("heard message %d, want %d", got, want)
			}
		}
	}
	if direct == 0 {
		t.Error("nobody ever had the turn")
	}
	others.Wait()
	w.Close()
	if err := <-listened; err == nil {
		t.Error("the listener ends without an error where the wire was closed")
	}
}

// While somebody has the turn the listener hears nothing, however much is said.
func TestTurnIsAlone(t *testing.T) {
	w, say := testWire(t)
	heard, listened := make(chan int, 3), make(chan error, 1)
	go func() {
		listened <- w.listen(func(text []byte, _ []int) error {
			if heard <- numbered(text); numbered(text) == 3 {
				return io.EOF
			}
			return nil
		})
	}()
	if !w.takeTurn() {
		t.Fatal("the turn is taken")
	}
	if w.takeTurn() {
		t.Fatal("the turn can be taken twice")
	}
	for n := range 3 {
		say(n)
	}
	for n := range 3 {
		if text, _, err := w.receive(); err != nil || numbered(text) != n {
			t.Fatalf("message %d: %v, %v", n, text, err)
		}
	}
	say(3)
	w.endTurn()
	if err := <-listened; !errors.Is(err, io.EOF) || len(heard) != 1 {
		t.Errorf("the listener heard %d messages and ends with %v, want the last one, and its error", len(heard), err)
	}
}

// An init that ends in somebody's turn, who does not see it, has ended for the
// listener after that.
func TestHangUpInATurn(t *testing.T) {
	for range 200 { // it depends on who is faster
		w, theirs, err := newWire()
		if err != nil {
			t.Fatal(err)
		}
		listened := make(chan error, 1)
		go func() {
			listened <- w.listen(func(text []byte, _ []int) error {
				if len(text) == 0 {
					return io.EOF
				}
				return nil
			})
		}()
		for !w.takeTurn() {
			runtime.Gosched()
		}
		theirs.Close()
		runtime.Gosched()
		w.endTurn()
		if err := <-listened; !errors.Is(err, io.EOF) {
			t.Fatalf("the listener is told %v, want the end", err)
		}
		w.Close()
	}
}

// What goes wrong in somebody's turn is told to the listener, who ends the box.
func TestTurnFails(t *testing.T) {
	broken := errors.New("it speaks of what it was not asked for")
	for name, tt := range map[string]struct {
		do   func(w *wire) error
		want error // nil for any
	}{
		"for a reason": {func(w *wire) error { return broken }, broken},
		"closed":       {func(w *wire) error { w.Close(); _, _, err := w.receive(); return err }, nil},
		"hung up": {func(w *wire) error {
			_ = unix.Shutdown(w.socket, unix.SHUT_RDWR)
			text, _, err := w.receive()
			if err == nil && len(text) == 0 {
				err = io.EOF
			}
			return err
		}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := testWire(t)
			if !w.takeTurn() {
				t.Fatal("the turn is taken")
			}
			listened := make(chan error, 1)
			go func() { listened <- w.listen(func([]byte, []int) error { return nil }) }()
			w.fail(tt.do(w))
			w.endTurn()
			if err := <-listened; err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("the listener is told %v, want %v", err, tt.want)
			}
		})
	}
}
