package egress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Frames of a websocket, RFC 6455, 5.2.
const (
	frameFinal    = 0x80
	frameReserved = 0x70 // bits for extensions, which were not negotiated
	frameControl  = 0x08
	frameMasked   = 0x80
	maxControl    = 125 // length of a control frame in bytes
)

// messages reads what a server sends on a websocket and passes it on without the values of
// secrets. A value may be split by frames, so a message is read as one text and written in
// new frames. Any intermediary may do so if there are no extensions (RFC 6455, 5.4).
type messages struct {
	in  *bufio.Reader
	out io.Writer
	m   *masker

	left  uint64 // bytes left of the frame that is read
	final bool   // whether it is the last frame of its message
}

// relay passes on messages until the end of the connection.
func (s *messages) relay() error {
	for {
		opcode, err := s.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if opcode == 0 {
			return errors.New("a frame of a websocket continues a message that has not begun")
		}
		if err := s.message(opcode); err != nil {
			return err
		}
	}
}

// message passes on the message whose first frame was begun.
func (s *messages) message(opcode byte) error {
	text := newMasked(s, s.m)
	buf, free := buffer()
	defer free()
	for {
		n, err := text.Read(buf)
		last := err != nil || text.ready == 0 && errors.Is(text.err, io.EOF)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := s.write(opcode, buf[:n], last); err != nil || last {
			return err
		}
		opcode = 0
	}
}

// Read continues to read a message. Control frames in between are passed on by themselves.
func (s *messages) Read(p []byte) (int, error) {
	for s.left == 0 {
		if s.final {
			return 0, io.EOF
		}
		opcode, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case opcode != 0:
			return 0, errors.New("a frame of a websocket begins a message before the last one has ended")
		}
	}
	n, err := s.in.Read(p[:min(uint64(len(p)), s.left)])
	s.left -= uint64(n)
	switch {
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case err == nil && s.left == 0 && s.final:
		err = io.EOF
	}
	return n, err
}

// cutShort returns the error for the end of a connection within a frame.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// next reads the head of the next frame that is not a control frame. Its error is io.EOF
// only if the connection ends between two frames.
func (s *messages) next() (opcode byte, err error) {
	for {
		var head [2]byte
		if head[0], err = s.in.ReadByte(); err != nil {
			return 0, err
		}
		if head[1], err = s.in.ReadByte(); err != nil {
			return 0, cutShort(err)
		}
		size := uint64(head[1] &^ frameMasked)
		control := head[0]&frameControl != 0
		if head[0]&frameReserved != 0 || head[1]&frameMasked != 0 || control && (size > maxControl || head[0]&frameFinal == 0) {
			return 0, fmt.Errorf("a frame of a websocket begins with %x, which RFC 6455 does not allow a server", head)
		}
		if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
			var wide [8]byte
			if _, err := io.ReadFull(s.in, wide[8-more:]); err != nil {
				return 0, cutShort(err)
			}
			size = binary.BigEndian.Uint64(wide[:])
		}
		if !control {
			s.left, s.final = size, head[0]&frameFinal != 0
			return head[0] & 0x0f, nil
		}
		text := make([]byte, size)
		if _, err := io.ReadFull(s.in, text); err != nil {
			return 0, cutShort(err)
		}
		if err := s.write(head[0]&0x0f, []byte(s.m.blot(string(text))), true); err != nil {
			return 0, err
		}
	}
}

// write writes one frame.
func (s *messages) write(opcode byte, text []byte, final bool) error {
	head := []byte{opcode, byte(len(text))}
	if final {
		head[0] |= frameFinal
	}
	switch n := len(text); {
	case n > 0xffff:
		head[1] = 127
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	case n > maxControl:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(n))
	}
	_, err := s.out.Write(append(head, text...))
	return err
}

// goOn relays what follows a websocket's handshake. It does not look at the bytes, unless a
// secret may come back in them.
func (x *exchange) goOn(q request, resp *http.Response) error {
	m := x.masker(q)
	err := x.upgrade(q, resp, m)
	x.served(q.began, q.method, q.path, q.extra.names, 0, 0, err)
	if err != nil {
		return err
	}
	out, back := x.ways()
	if m != nil {
		back.first = (&messages{in: x.up.in, out: x.client.conn, m: m}).relay
	}
	return x.splice(out, back)
}

// upgrade writes the answer to a websocket's handshake.
func (x *exchange) upgrade(q request, resp *http.Response, m *masker) error {
	var w bytes.Buffer
	w.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
	x.writeHeader(&w, q, resp, m)
	w.WriteString("\r\n")
	_, err := x.client.conn.Write(w.Bytes())
	return err
}
