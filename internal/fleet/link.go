package fleet

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// link is the link of one worker at a front, or a bulk connection. Of a bulk connection, only
// of, hello, conn, client and peer are used.
type link struct {
	hello
	*conn

	of      *link                // the link whose bulk connection this is; nil for a link
	bulk    atomic.Pointer[link] // bulk connection; nil without one
	client  *http.ClientConn
	since   time.Time
	peer    *peer
	running atomic.Int64 // number of requests that run
	sent    atomic.Int64 // number of requests of clients that were sent

	places  map[string]bool // guarded by roster.mu, like the fields below
	moves   []Marked
	digest  string // digest of the policy in force at the worker
	number  uint64 // number of the worker's policy, if it is one of the fleet
	refused string // why the worker refuses the policy of the fleet
	drains  bool
	skew    time.Duration
	signed  Signed // newest checkpoint of its audit log
}

// startHTTP2 begins HTTP/2 on a connection.
func (l *link) startHTTP2(ctx context.Context) (err error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // the connection below already uses TLS
	wait := pingWait
	if l.of != nil {
		wait = bulkWait
	}
	t := &http.Transport{
		Protocols: &protocols, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return l.conn, nil },
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: wait, WriteByteTimeout: writeWait, StrictMaxConcurrentRequests: true,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxBuffer,
		},
	}
	l.tail.begin(prefaceSize, l.probe)
	l.client, err = t.NewClientConn(ctx, "http", "worker:80")
	return err
}

// via returns the connection for a message of a link: the bulk connection for a large one.
func (l *link) via(large bool) *link {
	if b := l.bulk.Load(); large && b != nil {
		return b
	}
	return l
}

// maxSent is how many requests of clients are sent over one link: a connection has numbers
// for 1<<30 streams (RFC 9113, 5.1.1). After that the worker must connect again.
const maxSent = 1 << 29

// over reports whether a link has ended. Its requests may notice this before its connection
// is closed.
func (l *link) over() bool {
	b := l.bulk.Load()
	return closed(l.lost) || l.client.Err() != nil || b != nil && b.over()
}

// endWhole closes both connections if one of them has ended. The caller is about to return an
// error from the body of an answer in parts, and then resets the request on the other connection.
// The reset must not reach the worker, where it would cancel the request.
func (l *link) endWhole() {
	if !l.over() {
		return
	}
	l.hangUp()
	if b := l.bulk.Load(); b != nil {
		b.hangUp()
	}
}

// alive reports whether a worker still answers.
func (l *link) alive() bool {
	select {
	case <-l.lost:
		return false
	default:
	}
	// The pings of the connection find this out: if the worker is lost, the link ends soon
	// after the longest time that they take.
	wait := time.NewTimer(pingAfter + pingWait + 100*time.Millisecond)
	defer wait.Stop()
	select {
	case <-l.lost:
		return false
	case <-wait.C:
		return true
	}
}

// useBulk handles a bulk connection until it ends or its link ends, and then ends both.
func useBulk(ctx context.Context, log *slog.Logger, b *link) {
	if err := b.startHTTP2(ctx); err != nil {
		log.Warn("a bulk connection cannot be used", "worker", b.Name, "err", err)
		b.Close()
		return
	}
	defer b.client.Close()
	defer b.Close() // before client.Close, which resets its streams: that would cancel requests
	if !b.of.bulk.CompareAndSwap(nil, b) {
		return
	}
	log.Info("a link has its bulk connection", "worker", b.Name)
	defer b.of.Close()
	select {
	case <-b.lost:
	case <-b.of.lost:
	}
}
