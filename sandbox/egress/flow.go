package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// flow is one connection of a box. It has a slot of the caps from begin to end, and is
// judged under the snapshot that begin took. Its timer bounds its life and its idle time,
// and closes what the flow owns.
//
// One goroutine uses a flow at a time, except for count, own, shut and end.
type flow struct {
	d     *Door
	snap  *snapshot
	rec   Record // record that end completes; Proto may be set to "http" or "tls"
	drop  func() // releases the hold on the door
	timer *time.Timer

	decided func() // called before the host is dialled; may be nil

	sent, received atomic.Int64
	seen           atomic.Int64 // time of the last counted bytes, in nanoseconds since rec.Time
	fake           netip.Addr   // address of the table of names that the flow uses; may be invalid
	ended          atomic.Bool

	mu    sync.Mutex
	cause error    // why the flow was shut; nil if it was not
	owned []func() // called when the flow is shut
}

// Causes for which a flow is shut from outside.
var (
	errIdle = errors.New("the connection was silent for too long")
	errLife = errors.New("the connection was open for too long")
)

// begin takes a slot for a connection, which end releases. It enforces the limits on open
// connections, on new ones in a second and on bytes. Its error is a *Refused, which
// turnAway records, or ErrClosed, or the error of ctx.
func (d *Door) begin(ctx context.Context) (*flow, error) {
	return d.beginUnder(ctx, d.current.Load())
}

func (d *Door) beginUnder(ctx context.Context, snap *snapshot) (*flow, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &flow{d: d, snap: snap, rec: Record{Time: time.Now(), Proto: "tcp"}}
	if reason, instead := d.caps.enter(f.rec.Time, snap.limits); reason != "" {
		return nil, f.refuse(f.rec, ruleLimits, reason, instead)
	}
	if reason := d.cfg.Allowed.add(f.rec.Time, 0); reason != "" {
		d.caps.leave()
		return nil, f.refuse(f.rec, ruleLimits, reason, askedMore)
	}
	drop, err := d.hold(func() { f.shut(ErrClosed) })
	if err != nil {
		d.caps.leave()
		return nil, err
	}
	f.drop = drop
	f.mu.Lock()
	f.timer = time.AfterFunc(min(snap.limits.Idle, snap.limits.Life), f.tick)
	f.mu.Unlock()
	return f, nil
}

// tick shuts the flow if it was silent or open for too long. Otherwise it sets the timer
// for the next time at which one of these can be true.
func (f *flow) tick() {
	age, l := time.Since(f.rec.Time), f.snap.limits
	silent := age - time.Duration(f.seen.Load())
	switch {
	case age >= l.Life:
		f.shut(fmt.Errorf("%w (%v)", errLife, l.Life))
	case silent >= l.Idle:
		f.shut(fmt.Errorf("%w (%v)", errIdle, l.Idle))
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.cause == nil {
			f.timer.Reset(min(l.Life-age, l.Idle-silent))
		}
	}
}

// own makes the flow call shut when it ends: by end, because the door closes, or because
// its time is up. If it has ended already, own calls shut immediately. shut must not block.
func (f *flow) own(shut func()) {
	f.mu.Lock()
	over := f.cause != nil
	if !over {
		f.owned = append(f.owned, shut)
	}
	f.mu.Unlock()
	if over {
		shut()
	}
}

// shut closes what the flow owns. The first cause counts. A refusal also ends the
// flow, so that it is recorded before the client sees the connection close.
func (f *flow) shut(cause error) {
	if _, refused := errors.AsType[*Refused](cause); refused {
		f.end(cause)
		return
	}
	f.release(cause)
}

func (f *flow) release(cause error) {
	f.mu.Lock()
	owned := f.owned
	f.owned = nil
	if f.cause == nil {
		f.cause = cause
	}
	f.mu.Unlock()
	for _, c := range owned {
		c()
	}
}

// over returns why the flow was shut, or nil.
func (f *flow) over() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// meant returns the host that an address stands for in this box: the name of a fake
// address, which stays in use until the flow ends, or the address itself. If no
// name has a fake address, the error is a *Refused. It is called at most once.
func (f *flow) meant(addr netip.AddrPort) (policies.Host, error) {
	ip := addr.Addr().Unmap()
	f.rec.Addr, f.rec.Port = netip.AddrPortFrom(ip, addr.Port()), addr.Port()
	if !fakeRange.Contains(ip) {
		return policies.HostAddr(ip), nil
	}
	h, ok := f.d.names.hold(ip)
	if !ok {
		return policies.Host{}, f.refuse(f.rec, "no name", "no name has this address in this box any more", "Look the name up again and connect to the address it has now.")
	}
	f.fake = ip
	return h, nil
}

// connect judges a connection to a port of a host, resolves the host and dials
// it. It resolves nothing before the verdict, and dials nothing before it has
// checked the address. The connection is closed with the flow. The error is a
// *Refused if the door refused, and otherwise says what failed.
func (f *flow) connect(ctx context.Context, h policies.Host, port uint16) (net.Conn, error) {
	f.rec.Host, f.rec.Port = h, port
	rec := f.rec
	if h.IsZero() || port == 0 {
		return nil, f.refuse(rec, "no host", "no host or port is named", "")
	}
	v := f.snap.Connect(h, port)
	f.rec.Rule = v.Rule
	if !v.Allowed {
		return nil, f.d.refuseVerdict(f.snap, rec, v)
	}
	if h.Name() != "" && !isLocal(h) {
		if _, bound := f.d.admit(f.snap, h); bound != nil {
			return nil, f.refuse(rec, ruleLimits, bound.reason, bound.instead)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.own(func() { cancel(ErrClosed) })
	c, err := f.d.dial(ctx, f.snap, h, port, f.decided)
	if err != nil {
		_, refused := errors.AsType[*Refused](err)
		if over := f.over(); over != nil && !refused {
			err = over
		}
		return nil, f.failed(rec, err)
	}
	f.own(func() { c.Close() })
	if addr, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		f.rec.Addr = addr.AddrPort()
	}
	return c, nil
}

// requests reports whether each request on the connection must be judged. A request that
// cannot be read must then be refused.
func (f *flow) requests() bool { return f.snap.Connect(f.rec.Host, f.rec.Port).Requests }

// judge decides about a request on a connection that connect has made or would make. path
// is the path of the request, escaped as it arrived; a query is ignored. The error is a
// *Refused, which judge has recorded. The caller records an allowed request by served.
func (f *flow) judge(method, path string) error {
	path, _, _ = strings.Cut(path, "?")
	rec := f.rec
	rec.Time, rec.Proto, rec.Method, rec.Path = time.Now(), "http", method, path
	v := f.snap.Request(rec.Host, rec.Port, method, path)
	if v.Allowed {
		return nil
	}
	err := f.d.refuseVerdict(f.snap, rec, v)
	f.d.record(err.Record)
	return err
}

// served records an allowed request: when it began, the name of the secret that
// was added to it, if any, the bytes of its body and of the answer's body, and the
// error for which it has no answer, or only a part of one.
func (f *flow) served(began time.Time, method, path, secret string, sent, received int64, failed error) {
	path, _, _ = strings.Cut(path, "?")
	rec := f.rec
	rec.Time, rec.Proto, rec.Method, rec.Path, rec.Secret = began, "http", method, path, secret
	rec.Allowed, rec.Rule = true, f.snap.Request(rec.Host, rec.Port, method, path).Rule
	rec.Sent, rec.Received, rec.Took = sent, received, time.Since(began)
	if failed != nil {
		rec.Reason = policies.Clip(failed.Error(), maxLine)
	}
	f.d.record(rec)
}

// count adds bytes after they went through, and marks the flow as active. Its error
// is a *Refused once the box has used up its bytes, or the reason why the flow was
// shut; the caller must then close the connection. Each open connection can exceed
// the limit by at most one count.
func (f *flow) count(sent, received int64) error {
	f.sent.Add(sent)
	f.received.Add(received)
	f.seen.Store(int64(time.Since(f.rec.Time)))
	if total := f.d.caps.bytes.Add(sent + received); total > f.snap.limits.Bytes {
		return f.used()
	}
	if reason := f.d.cfg.Allowed.add(time.Now(), sent+received); reason != "" {
		return f.refuse(Record{Time: f.rec.Time, Proto: f.rec.Proto, Host: f.rec.Host, Port: f.rec.Port}, ruleLimits, reason, askedMore)
	}
	return f.over()
}

// askedMore is the advice in a refusal after all bytes of the allowance were used.
const askedMore = "Work without the network until then, or tell the person you work for."

// used returns the refusal for a box that has used up its bytes.
func (f *flow) used() error {
	return f.refuse(Record{Time: f.rec.Time, Proto: f.rec.Proto, Host: f.rec.Host, Port: f.rec.Port},
		ruleLimits, bytesUsed(f.snap.limits), "")
}

// end records the connection and frees what it uses. The error says how it ended; nil means
// without an error. Only the first call counts.
func (f *flow) end(err error) {
	if f.ended.Swap(true) {
		return
	}
	refused, ok := errors.AsType[*Refused](err)
	// A refusal stays one, even if the door was closed or the time was up before end.
	if over := f.over(); !ok && over != nil && !errors.Is(over, net.ErrClosed) {
		err = over
	}
	rec := f.rec
	rec.Allowed = true
	if ok {
		rec.Allowed, rec.Rule = false, refused.Record.Rule
		rec.Reason, rec.Instead = refused.Record.Reason, refused.Record.Instead
	} else if err != nil {
		rec.Reason = policies.Clip(err.Error(), maxLine)
	}
	rec.Sent, rec.Received, rec.Took = f.sent.Load(), f.received.Load(), time.Since(rec.Time)
	if !rec.Allowed || !rec.Host.IsZero() { // a client of the proxy may have asked for nothing
		f.d.record(rec)
	}
	if f.fake.IsValid() {
		f.d.names.release(f.fake)
	}
	f.d.caps.leave()
	// The connection is closed after all that, so the record exists when the client sees
	// the end.
	f.release(net.ErrClosed)
	f.mu.Lock()
	f.timer.Stop()
	f.mu.Unlock()
	f.drop()
}

// refuse completes rec and returns it as a refusal.
func (f *flow) refuse(rec Record, rule, reason, instead string) *Refused {
	rec.Profile, rec.Rule, rec.Reason, rec.Instead = f.d.cfg.Profile, rule, reason, instead
	return &Refused{Record: rec}
}

// failed returns the error for a connection that was not made.
func (f *flow) failed(rec Record, err error) error {
	if r, ok := errors.AsType[*Refused](err); ok {
		rec.Addr = r.Record.Addr
		return f.refuse(rec, r.Record.Rule, r.Record.Reason, r.Record.Instead)
	}
	return fmt.Errorf("%s: %w", rec.what(), err)
}
