package gateway

import (
	"errors"
	"io"
	"sync"
)

// The streams of a server are the pipes of its box: a connection reads and writes the pipes
// itself. A goroutine that copied between them would cost each call two more context
// switches.

var errNoInput = errors.New("the input of the server is closed")

// inlet is the input of a server. The box reads it, and a connection writes it.
type inlet struct {
	pipe   chan io.Writer // receives the pipe when the server has started
	closed chan struct{}
	once   sync.Once
	to     io.Writer // nil until the first write, which waits for the pipe
}

func newInlet() *inlet { return &inlet{pipe: make(chan io.Writer, 1), closed: make(chan struct{})} }

// WriteTo is called by the box. It returns when no more input will be written.
func (i *inlet) WriteTo(pipe io.Writer) (int64, error) {
	i.pipe <- pipe
	<-i.closed
	return 0, nil
}

// Read exists because the box wants a reader. The box calls WriteTo instead.
func (i *inlet) Read([]byte) (int, error) { return 0, io.EOF }

// Write writes to the server. Writes must not be concurrent. Close ends a Write that waits.
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

// outlet is the output of a server. The box writes it, and a connection reads it.
type outlet struct {
	pipe   chan io.Reader  // receives the pipe when the server has started
	ended  <-chan struct{} // closed when the server has ended
	read   chan struct{}   // closed when the pipe has ended
	closed chan struct{}
	once   sync.Once
	from   io.Reader // nil until the first read, which waits for the pipe
}

func newOutlet(ended <-chan struct{}) *outlet {
	return &outlet{pipe: make(chan io.Reader, 1), ended: ended, read: make(chan struct{}), closed: make(chan struct{})}
}

// ReadFrom is called by the box. It returns when the output has ended, or when it is no
// longer read.
func (o *outlet) ReadFrom(pipe io.Reader) (int64, error) {
	o.pipe <- pipe
	select {
	case <-o.read:
	case <-o.closed:
	}
	return 0, nil
}

// Write exists because the box wants a writer. The box calls ReadFrom instead.
func (o *outlet) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Read reads the output of the server. Reads must not be concurrent. It returns io.EOF only
// when the server itself has ended: from then on it is known how the server ended.
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
