package egress

import (
	"errors"
	"io"
	"time"
)

// maxSkipped bounds the records between a client's two ClientHellos: early data (RFC 8446,
// 4.2.10), and the change_cipher_spec record that is sent for compatibility (D.4).
const maxSkipped = 64

// retryRandom is the random of a ServerHello that asks for a second
// ClientHello (RFC 8446, 4.1.3): the SHA-256 of "HelloRetryRequest".
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// passTLS relays TLS that the door does not open. If the server asks for a second
// ClientHello, the second one must name the host too, because some servers use its name.
// Until the server has answered, only the first ClientHello of the client is passed on.
func (r *relay) passTLS() error {
	again := make(chan bool, 1)
	return r.splice(
		way{to: r.up, from: r.client, first: func() error { return r.hellos(again) }},
		way{to: r.client, from: r.up, first: func() error { again <- asksAgain(r.up); return nil }},
	)
}

// asksAgain reports whether a server's first record asks for a second ClientHello. It reads
// no more of the record than that needs.
func asksAgain(up *side) bool {
	const random = recordHeader + 4 + 2
	if seen, err := up.in.Peek(1); err != nil || seen[0] != recordHandshake {
		return false
	}
	if seen, err := up.in.Peek(recordHeader + 1); err != nil || seen[recordHeader] != messageServerHello {
		return false
	}
	seen, err := up.in.Peek(random + len(retryRandom))
	return err == nil && string(seen[random:]) == retryRandom
}

// hellos passes on a client's ClientHello, and the second one if the server asks for it. If
// one of the connections has ended, the goroutine that copies the rest notices that.
func (r *relay) hellos(again <-chan bool) error {
	if err := handOver(r.client, r.up, r.hello.size); err != nil || !<-again {
		return err
	}
	for range maxSkipped {
		head, err := r.client.in.Peek(recordHeader)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case head[0] == recordHandshake:
			return r.secondHello()
		}
		if err := handOver(r.client, r.up, recordHeader+int(head[3])<<8+int(head[4])); err != nil {
			return err
		}
	}
	return r.unclear("a TLS client does not send the second ClientHello that it is asked for")
}

func (r *relay) secondHello() error {
	if err := r.client.conn.SetReadDeadline(time.Now().Add(openingTime)); err != nil {
		return err
	}
	for range maxPieces {
		seen, _ := r.client.in.Peek(r.client.in.Buffered()) // cannot fail: these bytes are buffered
		h, err := parseHello(seen)
		switch {
		case err == nil:
			if err := h.wants(r.host); err != nil {
				return r.refuse(r.rec, "SNI", err.Error(), "Connect to each host by its own name.")
			}
			return handOver(r.client, r.up, h.size)
		case !errors.Is(err, errMore):
			return r.unclear(err.Error())
		}
		if _, err := r.client.in.Peek(len(seen) + 1); err != nil {
			return r.unclear("a second ClientHello is cut short, too long or too slow")
		}
	}
	return r.unclear("a second ClientHello arrives in too many pieces")
}

// handOver passes on the next n bytes of a side.
func handOver(from, to *side, n int) error {
	m, err := pass(to.conn, io.LimitReader(from.in, int64(n)), func(int64) {})
	if err == nil && m < int64(n) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
