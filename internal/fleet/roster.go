package fleet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/pause"
)

// maxHandshakes is how many connections may be in their handshake at the same time.
// addressPart is how many addresses it takes to use up all of them. maxLinks is how many
// workers may be linked.
const (
	maxHandshakes = 256
	addressPart   = 8
	maxLinks      = 1024
)

// maxSkew is by how much the clock of a worker that gets new places may be wrong, because a
// clock decides what has expired.
const maxSkew = time.Minute

// roster contains the workers that are linked to a front. Its methods are safe for
// concurrent use.
type roster struct {
	files *certificates
	keys  *Keys
	log   *slog.Logger

	mu          sync.Mutex
	links       map[string]*link   // guarded by mu: links by the name of the worker
	coming      map[string]*link   // guarded by mu: links that have not reported their places yet, by name
	holders     map[string][]*link // guarded by mu: links of the workers that have a place, by place
	changed     chan struct{}      // guarded by mu: closed at the next change
	policy      Policy             // guarded by mu: policy of the fleet; zero without a policy
	policySince time.Time          // guarded by mu: when policy was set
	closed      bool               // guarded by mu

	shaking *shares       // handshakes by address
	over    chan struct{} // closed when closed is set
	running sync.WaitGroup
}

func newRoster(files *certificates, keys *Keys, log *slog.Logger) *roster {
	return &roster{
		files: files, keys: keys, log: log, links: make(map[string]*link), coming: make(map[string]*link), holders: make(map[string][]*link),
		changed: make(chan struct{}), shaking: newShares(maxHandshakes, addressPart), over: make(chan struct{}),
	}
}

// acceptPause is the pause after a connection could not be accepted.
const acceptPause = 100 * time.Millisecond

// serve accepts links until the listener is closed.
func (r *roster) serve(ctx context.Context, l net.Listener) error {
	cfg := r.files.server()
	r.run(r.watch)
	for {
		raw, err := l.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed) || ctx.Err() != nil:
			return err
		default: // for example too many open files, which does not last
			r.log.Error("a connection of a worker cannot be accepted; the front tries again", "err", err)
			_ = pause.For(ctx, acceptPause)
			continue
		}
		from := origin(raw)
		if !r.shaking.acquire(from, 1) { // strangers with many addresses can keep workers out, but only for helloWait
			raw.Close()
			continue
		}
		if !r.run(func() {
			over, err := r.shake(ctx, raw, cfg)
			r.shaking.release(from, 1)
			if err != nil {
				r.log.Debug("a connection to the port of links is refused", "from", raw.RemoteAddr().String(), "err", err)
				raw.Close()
				return
			}
			if over.of != nil {
				useBulk(ctx, r.log, over)
				return
			}
			r.use(ctx, over)
		}) {
			r.shaking.release(from, 1)
			raw.Close()
		}
	}
}

// run starts f in a goroutine that close waits for. It returns false if the roster is
// closed.
func (r *roster) run(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.running.Go(f)
	}
	return !r.closed
}

// origin returns the network that a connection comes from, for its share of the handshakes.
// A host can use any number of IPv6 addresses in its network of 64 bits, so these count as
// one.
func origin(c net.Conn) string {
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	addr := from.Addr().Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}

// watch ends the links whose certificates are not valid any more.
func (r *roster) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.over:
			return
		case <-tick.C:
		}
		r.mu.Lock()
		all := slices.AppendSeq(slices.Collect(maps.Values(r.links)), maps.Values(r.coming))
		r.mu.Unlock()
		for _, l := range all {
			if err := r.files.check(l.peer, time.Now()); err != nil {
				r.log.Warn("the link of a worker is ended", "worker", l.Name, "err", err)
				r.run(func() { l.Close() }) // Close may wait for a worker that does not read
			}
		}
	}
}

// shake makes the handshake of a connection, and reads the hello. It returns a bulk connection
// as a link with the field of.
func (r *roster) shake(ctx context.Context, raw net.Conn, cfg *tls.Config) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	_ = raw.SetDeadline(time.Now().Add(helloWait))
	over := tls.Server(newSocket(raw), cfg)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	l := &link{conn: newConn(over), since: time.Now(), places: make(map[string]bool)}
	if err := receive(over, &l.hello); err != nil {
		return nil, err
	}
	l.peer = &peer{chain: over.ConnectionState().PeerCertificates, usage: x509.ExtKeyUsageClientAuth}
	leaf := l.peer.chain[0]
	why, want := "", helloProtocol
	if l.Bulk {
		want = bulkProtocol
	}
	switch {
	case l.Protocol != want:
		why = fmt.Sprintf("it speaks version %d of the link, and this front %d; install one version of belljar everywhere", l.Protocol, want)
	case !IsWorkerName(l.Name) || leaf.VerifyHostname(l.Name+workerDomain) != nil:
		why = fmt.Sprintf("its certificate is not for the worker %.63q: that needs the DNS name %.63s%s; `belljar fleet cert` makes one", l.Name, l.Name, workerDomain)
	case l.Bulk:
		l.of, why = linkOf(r, l)
	default:
		why = r.admit(l)
	}
	if err := send(over, welcome{Refused: why, Bulk: why == ""}); err != nil {
		r.drop(l)
		return nil, err
	}
	if why != "" && !l.Bulk { // a worker tries again each minute
		r.log.Warn("a worker is refused", "worker", printableName(l.Name), "from", raw.RemoteAddr().String(), "why", why)
	}
	if why != "" {
		return nil, errors.New(why)
	}
	_ = raw.SetDeadline(time.Time{})
	return l, nil
}

// linkOf returns the link of a bulk connection, or why the connection is refused. It must have
// the certificate of that link, because watch checks only the link's.
func linkOf(r *roster, b *link) (l *link, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range []*link{r.links[b.Name], r.coming[b.Name]} {
		if l != nil && l.Process == b.Process && l.Link == b.Link && l.bulk.Load() == nil && l.peer.chain[0].Equal(b.peer.chain[0]) {
			return l, ""
		}
	}
	return nil, "it has no link that needs this connection"
}

// printableName returns a name that a worker has sent, or "?" if it is not a valid name.
func printableName(name string) string {
	if !IsWorkerName(name) {
		return "?"
	}
	return name
}

// admit accepts a link, or returns why it is refused. If the same process connects again,
// its first link is lost. Two processes with one name are a mistake of the operator, and
// the first process stays linked, because it may be at work.
func (r *roster) admit(l *link) string {
	if old := r.named(l.Name); old != nil {
		if old.Process != l.Process && old.alive() {
			return fmt.Sprintf("a worker of the name %s is linked from %s, and answers; give each worker a name and a directory of its own", old.Name, old.RemoteAddr())
		}
		old.Close()
	}
	before, why := r.expect(l)
	if before != nil {
		before.Close() // its worker has not reported any places, so nothing is lost
	}
	return why
}

// expect records a link whose worker has not reported its places yet, in place of an
// earlier one of the same name. It returns that earlier link, or why the link is refused.
func (r *roster) expect(l *link) (before *link, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.coming[l.Name]
	switch {
	case r.closed:
		return nil, "the front stops"
	case before == nil && r.links[l.Name] == nil && len(r.links)+len(r.coming) >= maxLinks:
		return nil, fmt.Sprintf("it has %d workers, and more are not allowed", maxLinks)
	}
	r.coming[l.Name] = l
	return before, ""
}

// use handles a link until it ends.
func (r *roster) use(ctx context.Context, l *link) {
	defer l.Close()
	err := l.startHTTP2(ctx)
	if err != nil {
		r.log.Debug("a link cannot be used", "worker", l.Name, "err", err)
		r.drop(l)
		return
	}
	defer l.client.Close()
	var witnessing sync.WaitGroup
	over := make(chan struct{})
	defer witnessing.Wait()
	defer close(over)
	defer l.Close()
	witnessing.Go(func() { r.witness(ctx, l, over) })
	witnessing.Go(func() { giveTo(ctx, r, l, over) })
	r.log.Info("a worker is linked", "worker", l.Name, "from", l.RemoteAddr().String(), "version", fmt.Sprintf("%.40q", l.Version))
	if err = r.follow(ctx, l); ctx.Err() == nil {
		r.log.Warn("a worker is not linked any more", "worker", l.Name, "err", err)
	}
	r.drop(l)
}

// follow reads the states of a worker, until its link ends.
func (r *roster) follow(ctx context.Context, l *link) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker"+statePath, nil)
	if err != nil {
		return err
	}
	res, err := l.client.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return r.read(ctx, l, res.Body)
}

// read records the states of a worker, one line each. It limits the rate, because each line
// may be long and costs the front time.
func (r *roster) read(ctx context.Context, l *link, body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxState)
	for lines.Scan() {
		var s state
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil || !s.fits() {
			return errors.New("its report about itself cannot be read")
		}
		if !r.record(l, s) {
			return errors.New("another link has taken its place")
		}
		if s.Signed != nil {
			if err := r.keys.note(l.Name, s.Signed.Key); err != nil {
				r.log.Error("the key of an audit log is not remembered", "worker", l.Name, "err", err)
			}
		}
		rest := time.NewTimer(lineRest + time.Duration(len(lines.Bytes()))*time.Second/lineRate)
		select {
		case <-rest.C:
		case <-l.lost:
		case <-ctx.Done():
		}
		rest.Stop()
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("it has ended the link")
}

// Pause of a front after each line of a worker. It is longer after a longer line.
const (
	lineRest = 10 * time.Millisecond
	lineRate = 8 << 20 // bytes per second
)

// record records the state of a worker. It returns false if another link has taken the
// place of this one.
func (r *roster) record(l *link, s state) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.links[l.Name]
	if old != nil && old != l || r.closed {
		return false
	}
	r.links[l.Name] = l
	r.arrived(l)
	l.drains, l.skew, l.digest, l.number = s.Drains, time.Until(s.Time), s.PolicyDigest, s.Number
	if s.Signed != nil {
		l.signed = *s.Signed
	}
	if s.Places != nil {
		r.forgetPlaces(l)
		l.places = make(map[string]bool, len(*s.Places))
		for _, place := range *s.Places {
			r.addPlaceLocked(l, place)
		}
	}
	l.noteMoves((*[]Marked)(s.Moves))
	r.notify()
	return true
}

// addPlaceLocked records that a worker has a place. The caller holds mu.
func (r *roster) addPlaceLocked(l *link, place string) {
	if !l.places[place] {
		l.places[place] = true
		r.holders[place] = append(r.holders[place], l)
	}
}

// removePlace records that a worker does not have a place any more.
func (r *roster) removePlace(l *link, place string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !l.places[place] {
		return
	}
	delete(l.places, place)
	if r.holders[place] = slices.DeleteFunc(r.holders[place], func(o *link) bool { return o == l }); len(r.holders[place]) == 0 {
		delete(r.holders, place)
	}
}

// forgetPlaces removes the places of a link. The caller holds mu.
func (r *roster) forgetPlaces(l *link) {
	for place := range l.places {
		rest := slices.DeleteFunc(r.holders[place], func(o *link) bool { return o == l })
		if r.holders[place] = rest; len(rest) == 0 {
			delete(r.holders, place)
		}
	}
}

// arrived records that a link is not expected any more. The caller holds mu.
func (r *roster) arrived(l *link) {
	if r.coming[l.Name] == l {
		delete(r.coming, l.Name)
	}
}

// drop removes a link that has ended.
func (r *roster) drop(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived(l)
	r.forgetPlaces(l)
	if r.links[l.Name] == l {
		delete(r.links, l.Name)
	}
	r.notify()
}

// notify wakes the callers that wait for a change. The caller holds mu.
func (r *roster) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wake is notify for callers that do not hold mu.
func (r *roster) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify()
}

// made records that a worker has made a place.
func (r *roster) made(l *link, place string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.links[l.Name] == l {
		r.addPlaceLocked(l, place)
	}
}

// holding returns the workers that have a place, and a channel that is closed at the next
// change.
func (r *roster) holding(place string) (all []*link, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.holders[place]), r.changed
}

// named returns the link of a worker; nil if the worker is not linked.
func (r *roster) named(worker string) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.links[worker]
}

// ended reports whether a link has ended, and then removes it, so that requests wait for
// the next link of the worker. The worker may connect again immediately.
func (r *roster) ended(l *link) bool {
	over := l.over()
	if over {
		r.drop(l)
	}
	return over
}

// open reports whether a worker accepts requests.
func (r *roster) open(l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.links[l.Name] == l && !l.drains
}

// isStopping reports whether the worker with a name is linked and drains.
func isStopping(r *roster, worker string) bool {
	l := r.named(worker)
	return l != nil && !r.open(l)
}

// takers returns the workers that accept new places, those with the fewest places first.
func (r *roster) takers() []*link {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.DeleteFunc(slices.Collect(maps.Values(r.links)), func(l *link) bool { return l.drains || l.skew.Abs() > maxSkew || behind(r, l) })
	slices.SortFunc(all, func(a, b *link) int {
		if n := len(a.places) - len(b.places); n != 0 {
			return n
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// info returns what is known about the workers, in order.
func (r *roster) info() (all []WorkerInfo, places map[string]string, frozen map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = []WorkerInfo{}
	for _, name := range slices.Sorted(maps.Keys(r.links)) {
		l := r.links[name]
		all = append(all, WorkerInfo{
			Name: name, Address: l.RemoteAddr().String(), Version: fmt.Sprintf("%.40s", l.Version), Since: l.since, Drains: l.drains, Places: len(l.places),
			Running: l.running.Load(), Skew: l.skew, Expires: l.peer.chain[0].NotAfter, Fronts: l.Fronts, Late: l.skew.Abs() > maxSkew, PolicyDigest: l.digest,
			Number: l.number, Refused: l.refused, Behind: behind(r, l),
		})
	}
	places, frozen = make(map[string]string, len(r.holders)), make(map[string][]string)
	for place, links := range r.holders {
		places[place] = links[0].Name
		if len(links) > 1 {
			for _, l := range links {
				frozen[place] = append(frozen[place], l.Name)
			}
			slices.Sort(frozen[place])
		}
	}
	return all, places, frozen
}

// close ends all links. The workers notice that the front is gone.
func (r *roster) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.over)
	}
	all := slices.AppendSeq(slices.Collect(maps.Values(r.links)), maps.Values(r.coming))
	r.mu.Unlock()
	for _, l := range all {
		r.running.Go(func() { l.Close() }) // Close may wait for a worker that does not read
	}
	r.running.Wait()
}
