package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/login"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/wire"
	"belljar.dev/sandbox/egress"
)

// dialer connects to servers that were started, and to remote servers.
type dialer struct {
	*site
	offers *offers
	client json.RawMessage // clientInfo: the name and version of this program

	known sync.Mutex
	eras  map[string]peer.Era // guarded by known: eras of known servers, by id
}

// maxEras bounds the number of remembered eras.
const maxEras = 1024

// errAgain is the error for a connection whose server is started again, to be used in
// another era.
var errAgain = errors.New("the server is started again, this time without the request server/discover")

// Dial makes the handshake, reads the lists, and has them compared with the pins.
func (d *dialer) Dial(ctx context.Context, spec upstream.Spec, p upstream.Process) (_ *conn, err error) {
	var transport peer.Transport
	s, err := d.server(&spec)
	if err != nil {
		return nil, err
	}
	c := &conn{site: d.site, offers: d.offers, server: s, key: spec.Key, calls: make(map[string]*running), changed: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
	if started, ok := p.(*process); ok {
		c.runs, c.roots, c.stderr = started.runs, rootsOf(spec.Grant), p.Stderr
		transport = peer.Pipes{In: p.In(), Out: p.Out(), Stop: p.Close}
	} else if transport, err = d.remote(ctx, s, &spec, c); err != nil {
		c.closeDoor()
		return nil, err
	}
	if c.Conn, err = peer.Open(ctx, transport, peer.Config{
		Client: d.client, Capabilities: offersOf(s, offersAt{true, true, true}), Era: d.era(s.ID),
		OnRequest: c.asked, OnNotification: c.notified, Log: d.cfg.Log.With("upstream", s.Name),
	}); err != nil {
		c.closeDoor()
		if errors.Is(err, peer.ErrProbe) {
			d.remember(s.ID, peer.Legacy)
			return nil, fmt.Errorf("%w: %w", errAgain, err)
		}
		return nil, loginHint(err)
	}
	era := peer.Modern
	if c.Info().Era == wire.Legacy {
		era = peer.Legacy
	}
	d.remember(s.ID, era)
	if err := c.read(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.begin(ctx)
	c.offer()
	return c, nil
}

// era returns the era in which to speak to a server.
func (d *dialer) era(id string) peer.Era {
	d.known.Lock()
	defer d.known.Unlock()
	return d.eras[id] // peer.Auto if it is not remembered
}

// remember records the era of a server, which a server does not change.
func (d *dialer) remember(id string, era peer.Era) {
	d.known.Lock()
	defer d.known.Unlock()
	if d.eras == nil || len(d.eras) >= maxEras {
		d.eras = make(map[string]peer.Era)
	}
	d.eras[id] = era
}

// remote returns the transport to a remote server, through a door of its own. It sets the
// door and runs of c.
func (d *dialer) remote(ctx context.Context, s *server, spec *upstream.Spec, c *conn) (_ peer.Transport, err error) {
	if c.runs, err = d.check(ctx, *spec, "", false); err != nil {
		return nil, err
	}
	address, err := s.address(spec.Grant)
	if err != nil {
		return nil, err
	}
	header := make(http.Header, len(s.entry.Headers))
	for _, h := range s.entry.Headers {
		value, err := h.Value.Reveal(func(name string) (string, error) { return d.secret(ctx, s, name) })
		if err != nil {
			return nil, fmt.Errorf("the header %s: %w", h.Name, err)
		}
		header.Set(h.Name, value)
	}
	if c.door, err = egress.NewFor(spec.Grant, d.cfg.Record, d.cfg.Allowed); err != nil {
		return nil, err
	}
	client, err := d.site.client(s, spec.Key.Tenant, address, c.door)
	if err != nil {
		return nil, err
	}
	return peer.HTTP{URL: address, Client: client, Header: header, SSE: s.entry.Kind == config.SSE}, nil
}

// loginHint returns err, marked with upstream.ErrLogin if a login is needed, and with
// upstream.ErrLasting if the server refused the headers of its entry.
func loginHint(err error) error {
	if _, ok := errors.AsType[*login.NeededError](err); ok {
		return fmt.Errorf("%w: %w", err, upstream.ErrLogin)
	}
	if status, ok := errors.AsType[*peer.StatusError](err); ok && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden) {
		return fmt.Errorf("%w; it does not accept the headers of its entry: %w", err, upstream.ErrLasting)
	}
	return err
}
