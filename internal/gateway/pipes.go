package gateway

import (
	"errors"
	"io"
	"sync"
)

// The streams of a server are the pipes of its box: a connection reads and writes these itself.
// A goroutine that copied between would cost each call two switches more.

var errNoInput = errors.New("the input of the server is closed")

// inlet is the input of a server, as the box reads it and a connection writes it.
type inlet struct {
	pipe   chan io.Writer // gets the pipe when the server has started
	closed chan struct{}
	once   sync.Once
	to     io.Writer // nil until the first write, which waits for the pipe
}

func newInlet() *inlet { return &inlet{pipe: make(chan io.Writer, 1), closed: make(chan struct{})} }

// WriteTo is called by the box. It returns when nothing more is to be written.
func (i *inlet) WriteTo(pipe io.Writer) (int64, error) {
	i.pipe <- pipe
	<-i.closed
	return 0, nil
}

// Read is there because the box wants a reader. It calls WriteTo in place of it.
func (i *inlet) Read([]byte) (int, error) { return 0, io.EOF }

// Write writes to the server. Writes must not be concurrent. One that waits ends with Close.
func (i *inlet) Write(text []byte) (int, error) {
	if i.to == nil {
		select {
		case i.to = <-i.pipe:
		case <-i.closed:
			return 0, errNoInput
		}
	}
	return i.to.Write(text)
}

// Close ends the input. It may be called twice.
func (i *inlet) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// outlet is the output of a server, as the box offers it and a connection reads it.
type outlet struct {
	pipe   chan io.Reader  // gets the pipe when the server has started
	ended  <-chan struct{} // closed when the server has ended
	read   chan struct{}   // closed when the pipe has ended
	closed chan struct{}
	once   sync.Once
	from   io.Reader // nil until the first read, which waits for the pipe
}

func newOutlet(ended <-chan struct{}) *outlet {
	return &outlet{pipe: make(chan io.Reader, 1), ended: ended, read: make(chan struct{}), closed: make(chan struct{})}
}

// ReadFrom is called by the box. It returns when the output has ended, or nobody reads it any
// more.
func (o *outlet) ReadFrom(pipe io.Reader) (int64, error) {
	o.pipe <- pipe
	select {
	case <-o.read:
	case <-o.closed:
	}
	return 0, nil
}

// Write is there because the box wants a writer. It calls ReadFrom in place of it.
func (o *outlet) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Read reads what the server writes. Reads must not be concurrent. It returns io.EOF when the
// server has ended, and not sooner: then it is known how.
func (o *outlet) Read(b []byte) (int, error) {
	if o.from == nil {
		select {
		case o.from = <-o.pipe:
		case <-o.closed:
			return 0, io.EOF
		case <-o.ended:
			return 0, io.EOF
		}
	}
	select {
	case <-o.read: // an earlier Read has found the end
	default:
		n, err := o.from.Read(b)
		if err == nil {
			return n, nil
		}
		close(o.read)
	}
	<-o.ended
	return 0, io.EOF
}

// Close has the box read the rest of the output. It may be called twice.
func (o *outlet) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}
