package initconn

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// testConn returns a connection, and a function that sends a number from its other end.
func testConn(t *testing.T) (*Conn, func(number int)) {
	t.Helper()
	c, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		theirs.Close()
	})
	return c, func(number int) {
		if _, err := unix.Write(int(theirs.Fd()), binary.NativeEndian.AppendUint64(nil, uint64(number))); err != nil {
			t.Error(err)
		}
	}
}

// numbered returns the number in a message.
func numbered(text []byte) int { return int(binary.NativeEndian.Uint64(text)) }

// The listener receives all messages while nobody has the turn, and no message is
// lost while turns begin and end.
func TestTurns(t *testing.T) {
	const rounds = 5000
	c, say := testConn(t)
	heard, listened := make(chan int, 2*rounds), make(chan error, 1)
	go func() {
		listened <- c.Listen(func(text []byte, _ []int) error {
			heard <- numbered(text)
			return nil
		})
	}()
	var others sync.WaitGroup
	glimpse := func() { // takes a turn and receives nothing
		if c.takeTurn() {
			c.endTurn()
		}
	}
	direct := 0
	for n := range rounds {
		others.Go(glimpse)
		if !c.takeTurn() {
			say(2 * n)
		} else {
			direct++
			say(2 * n)
			text, _, err := c.Receive()
			if err != nil || numbered(text) != 2*n {
				t.Fatalf("message %d: %d, %v", 2*n, numbered(text), err)
			}
			heard <- 2 * n
			others.Go(c.endTurn) // while the next message is sent
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
	c.Close()
	if err := <-listened; err == nil {
		t.Error("the listener ends without an error where the connection was closed")
	}
}

// While another goroutine has the turn, the listener receives nothing, however many
// messages arrive.
func TestTurnIsAlone(t *testing.T) {
	c, say := testConn(t)
	heard, listened := make(chan int, 3), make(chan error, 1)
	go func() {
		listened <- c.Listen(func(text []byte, _ []int) error {
			if heard <- numbered(text); numbered(text) == 3 {
				return io.EOF
			}
			return nil
		})
	}()
	if !c.takeTurn() {
		t.Fatal("the turn is taken")
	}
	if c.takeTurn() {
		t.Fatal("the turn can be taken twice")
	}
	for n := range 3 {
		say(n)
	}
	for n := range 3 {
		if text, _, err := c.Receive(); err != nil || numbered(text) != n {
			t.Fatalf("message %d: %v, %v", n, text, err)
		}
	}
	say(3)
	c.endTurn()
	if err := <-listened; !errors.Is(err, io.EOF) || len(heard) != 1 {
		t.Errorf("the listener heard %d messages and ends with %v, want the last one, and its error", len(heard), err)
	}
}

// An init can end while a goroutine has the turn that does not see the end. The listener,
// which receives afterwards, then sees it.
func TestHangUpInATurn(t *testing.T) {
	for range 200 { // the outcome depends on who is faster
		c, theirs, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		listened := make(chan error, 1)
		go func() {
			listened <- c.Listen(func(text []byte, _ []int) error {
				if len(text) == 0 {
					return io.EOF
				}
				return nil
			})
		}()
		for !c.takeTurn() {
			runtime.Gosched()
		}
		theirs.Close()
		runtime.Gosched()
		c.endTurn()
		if err := <-listened; !errors.Is(err, io.EOF) {
			t.Fatalf("the listener is told %v, want the end", err)
		}
		c.Close()
	}
}

// An error in the turn of another goroutine is reported to the listener, which ends the
// box.
func TestTurnFails(t *testing.T) {
	broken := errors.New("it reports something that was not requested")
	for name, tt := range map[string]struct {
		do   func(c *Conn) error
		want error // nil means any error
	}{
		"for a reason": {func(c *Conn) error { return broken }, broken},
		"closed":       {func(c *Conn) error { c.Close(); _, _, err := c.Receive(); return err }, nil},
		"hung up": {func(c *Conn) error {
			_ = unix.Shutdown(c.socket, unix.SHUT_RDWR)
			text, _, err := c.Receive()
			if err == nil && len(text) == 0 {
				err = io.EOF
			}
			return err
		}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := testConn(t)
			if !c.takeTurn() {
				t.Fatal("the turn is taken")
			}
			listened := make(chan error, 1)
			go func() { listened <- c.Listen(func([]byte, []int) error { return nil }) }()
			c.Fail(tt.do(c))
			c.endTurn()
			if err := <-listened; err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("the listener is told %v, want %v", err, tt.want)
			}
		})
	}
}
