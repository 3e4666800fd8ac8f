package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"belljar.dev/policies"
)

// handshakeTime bounds a TLS handshake on either side of the door.
const handshakeTime = 15 * time.Second

// intercept opens TLS at the door. To the box, the door is the host, with a certificate
// that only the box trusts; to the host, it is a client that verifies the host. Both sides
// speak only HTTP/1.1, which can be judged.
func (r *relay) intercept(ctx context.Context) error {
	a := r.d.authority
	if a == nil {
		return r.refuse(r.rec, "tls", "the profile has tls: intercept, and the box was opened without an authority", "Start a new session.")
	}
	leaf, err := a.certify(r.host)
	if err != nil {
		return err
	}
	box := tls.Server(replayed{r.client.conn, r.client.in}, &tls.Config{
		Certificates: []tls.Certificate{*leaf}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
		SessionTicketsDisabled: true, // a ticket would be valid for another name too
	})
	if err := shake(ctx, box); err != nil {
		return fmt.Errorf("TLS with the box for %s: %w; does the program trust the box's authority?", r.host, err)
	}
	inner := relay{flow: r.flow, host: r.host, port: r.port, client: newSide(box, nil)}
	defer inner.client.free()
	up := tls.Client(replayed{r.up.conn, r.up.in}, &tls.Config{
		ServerName: r.host.String(), RootCAs: r.d.cfg.Roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
	if err := shake(ctx, up); err != nil {
		// A box gets this text, and the host's address is not for it. An error of TLS itself
		// ("remote error") has no address.
		if op, ok := errors.AsType[*net.OpError](err); ok && (op.Source != nil || op.Addr != nil) {
			err = op.Err
		}
		return inner.badGateway(fmt.Errorf("TLS with %s: %w", r.host, err))
	}
	inner.up = newSide(up, nil)
	defer inner.up.free()
	kind, err := inner.first()
	switch {
	case err != nil:
		return err
	case kind == openingHTTP:
		return inner.http(ctx, "https")
	}
	return inner.opaque()
}

// badGateway answers the request of a client whose server cannot be used, and returns
// cause. A request that the policy refuses gets the refusal.
func (r *relay) badGateway(cause error) error {
	if h, err := readHead(r.client); err == nil {
		rec := r.rec
		rec.Time, rec.Proto, rec.Method, rec.Path = time.Now(), "http", h.method, ""
		rec.Allowed, rec.Reason = true, policies.Clip(cause.Error(), maxLine)
		if p, err := h.place("https"); err == nil {
			rec.Path = p.path
			if refused, ok := errors.AsType[*Refused](r.judge(h.method, p.path)); ok {
				tell(r.client, http.StatusForbidden, refused.Record.Refusal())
				return cause
			}
		}
		r.d.record(rec)
		tell(r.client, http.StatusBadGateway, policies.Clip("The sandbox's door cannot reach the server: "+cause.Error(), maxLine))
	}
	return cause
}

// shake makes a TLS handshake, in handshakeTime at most.
func shake(ctx context.Context, c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.New("no handshake in time")
	}
	return err
}

// replayed is a connection whose first bytes were already read. It returns them
// again from in.
type replayed struct {
	net.Conn
	in io.Reader
}

func (c replayed) Read(p []byte) (int, error) { return c.in.Read(p) }

// CloseWrite closes the sending side of the connection.
func (c replayed) CloseWrite() error { return closeWrite(c.Conn) }
