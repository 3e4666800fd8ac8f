package egress

import (
	"errors"
	"fmt"

	"belljar.dev/policies"
)

// maxHello bounds a ClientHello with the headers of its records, in bytes. A
// browser's has about 2 KiB with a post-quantum key share.
const maxHello = 16 << 10

// Numbers of RFC 8446 (5.1, 4, 4.2) and RFC 6066 (3).
const (
	recordHeader       = 5
	recordHandshake    = 22
	messageClientHello = 1
	messageServerHello = 2
	extensionName      = 0
	nameOfHost         = 0
)

// errMore is returned if a ClientHello is not complete yet.
var errMore = errors.New("more bytes are needed")

// hello is the destination that a TLS ClientHello states in the clear.
type hello struct {
	name  string // from server_name (RFC 6066, 3), or empty
	named bool   // whether server_name was present
	size  int    // size in bytes, with the headers of its records
}

// parseHello reads the ClientHello at the beginning of raw, which may be spread over
// several records. It returns errMore if raw contains only its beginning. Text that two
// readers could read in different ways is an error: a second server_name, a list of several
// names, lengths that do not agree, other records before or within.
func parseHello(raw []byte) (hello, error) {
	message, size, err := joinRecords(raw)
	if err != nil {
		return hello{}, err
	}
	c := cursor{rest: message}
	c.skip(4)      // type and length, which joinRecords has checked
	c.skip(2 + 32) // version and random
	c.vector(1)    // session id
	c.vector(2)    // cipher suites
	c.vector(1)    // compression methods
	if c.bad {
		return hello{}, errors.New("a TLS ClientHello is cut short")
	}
	if len(c.rest) == 0 { // RFC 5246, 7.4.1.2: extensions may be left out
		return hello{size: size}, nil
	}
	extensions := c.vector(2)
	if c.bad || len(c.rest) > 0 {
		return hello{}, errors.New("a TLS ClientHello does not end with its extensions")
	}
	h, err := findName(extensions)
	h.size = size
	return h, err
}

// joinRecords returns the handshake message ClientHello, with its header, and how many
// bytes of raw it occupies.
func joinRecords(raw []byte) ([]byte, int, error) {
	var message []byte
	all := len(raw)
	for {
		if len(raw) < recordHeader {
			return nil, 0, errMore
		}
		length := int(raw[3])<<8 | int(raw[4])
		switch {
		// Some servers ignore an alert or an empty record before the hello. Such a record
		// would hide the hello from a reader that looks at the first record only.
		case raw[0] != recordHandshake:
			return nil, 0, fmt.Errorf("a TLS connection begins with a record of type %d in place of a ClientHello", raw[0])
		case raw[1] != 3:
			return nil, 0, fmt.Errorf("a TLS record has the version %d.%d", raw[1], raw[2])
		case length == 0 || length > maxHello:
			return nil, 0, fmt.Errorf("a TLS ClientHello has a record of %d bytes", length)
		}
		have := min(length, len(raw)-recordHeader)
		message = append(message, raw[recordHeader:recordHeader+have]...)
		raw = raw[recordHeader+have:]
		if len(message) < 4 {
			if have < length {
				return nil, 0, errMore
			}
			continue
		}
		want := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		switch {
		case message[0] != messageClientHello:
			return nil, 0, fmt.Errorf("a TLS connection begins with a message of type %d in place of a ClientHello", message[0])
		case want > maxHello:
			return nil, 0, fmt.Errorf("a TLS ClientHello of %d bytes; at most %d are read", want, maxHello)
		case have < length:
			return nil, 0, errMore
		// Nothing may follow before the server has answered.
		case len(message) > want, len(message) == want && len(raw) > 0 && raw[0] == recordHandshake:
			return nil, 0, errors.New("a TLS ClientHello is followed by another message")
		case len(message) == want:
			return message, all - len(raw), nil
		}
	}
}

// findName reads the extensions of a ClientHello.
func findName(extensions []byte) (hello, error) {
	var h hello
	seen := make(map[uint16]bool)
	for c := (cursor{rest: extensions}); len(c.rest) > 0; {
		number := c.uint16()
		data := c.vector(2)
		switch {
		case c.bad:
			return hello{}, errors.New("an extension of a TLS ClientHello is cut short")
		case seen[number]: // RFC 8446, 4.2: at most one extension of each type
			return hello{}, fmt.Errorf("a TLS ClientHello has extension %d twice", number)
		}
		seen[number] = true
		if number != extensionName {
			continue
		}
		list := cursor{rest: data}
		names := cursor{rest: list.vector(2)}
		kind := names.byte()
		name := names.vector(2)
		if list.bad || names.bad || len(list.rest) > 0 || len(names.rest) > 0 || kind != nameOfHost || len(name) == 0 {
			return hello{}, errors.New("the server name of a TLS ClientHello is not exactly one host name")
		}
		h.name, h.named = string(name), true
	}
	return h, nil
}

// wants returns how the hello departs from the host that the connection was judged for, or
// nil if it does not. The name must be that of the host. The hello of a connection to an
// address must contain no name, or that address: no rule has seen any other name. If the
// hello has encrypted_client_hello, the outer name is judged. That extension cannot be
// refused, because RFC 9849 lets a client send it as grease.
func (h hello) wants(asked policies.Host) error {
	if !h.named {
		if asked.Addr().IsValid() {
			return nil
		}
		return fmt.Errorf("SNI mismatch: the TLS ClientHello names no server, and the connection was asked for %s", asked)
	}
	named, err := policies.ParseHost(h.name)
	if err != nil {
		return fmt.Errorf("SNI mismatch: the server name in the TLS ClientHello is not a valid host name: %w", err)
	}
	if named != asked {
		return fmt.Errorf("SNI mismatch: the TLS ClientHello names %s, and the connection was asked for %s", named, asked)
	}
	return nil
}

// cursor reads fields from the front of a byte slice. Once bytes are missing, bad is set
// and every field is zero or empty.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.rest) {
		c.rest, c.bad = nil, true
		return nil
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) skip(n int) { c.take(n) }

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return 0
}

// vector returns the bytes that follow a length of size bytes.
func (c *cursor) vector(size int) []byte {
	n := 0
	for _, b := range c.take(size) {
		n = n<<8 | int(b)
	}
	return c.take(n)
}
