package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/order"
	"belljar.dev/internal/placefile"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/workspace"
)

// movers contains the places of a worker that move to other workers or arrive from them.
// Its methods are safe for concurrent use. The state is on the disk, see workdir, so the
// next process finds it if a process is killed between two steps.
type movers struct {
	places *places
	dir    *workdir
	state  string        // state directory of the worker
	drain  time.Duration // time in which the calls in a frozen place may end
	audit  *ledger
	log    *slog.Logger

	mu sync.Mutex
	// guarded by mu: time until which the running step of a place should make progress, by
	// place
	busy   map[string]time.Time
	paused map[string]bool        // guarded by mu: places that are frozen while they are exported
	frozen map[string]claims.Mark // guarded by mu
	copies map[string]claims.Mark // guarded by mu: marks of copies that are complete and not in use
	inside map[string]int         // guarded by mu: number of requests inside each place
	// guarded by mu: closed when no request is inside a place any more; set only while a
	// caller waits
	empty map[string]chan struct{}
}

// openMoves reads what moves have left in the directory of a worker.
func openMoves(s *Server, dir *workdir) (err error) {
	m := &movers{
		places: s.places, dir: dir, state: filepath.Join(dir.dir, workdirState), drain: s.cfg.Service.Link.Drain, log: s.Log,
		busy: make(map[string]time.Time), paused: make(map[string]bool), inside: make(map[string]int), empty: make(map[string]chan struct{}),
	}
	if err := dir.prepareMoves(); err != nil {
		return fmt.Errorf("--places: %w", err)
	}
	if m.frozen, m.copies, err = dir.marks(); err != nil {
		return fmt.Errorf("--places: %w", err)
	}
	s.places.moves, s.places.frozen = m, m.isFrozen
	return nil
}

// isFrozen reports whether a place is frozen.
func (m *movers) isFrozen(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozenNow(id)
}

// frozenNow is isFrozen for a caller that holds mu.
func (m *movers) frozenNow(id string) bool {
	_, frozen := m.frozen[id]
	return frozen || m.paused[id]
}

// enter lets a request into a place, unless the place is frozen or not at this worker. The
// caller calls leave at the end of the request.
func (m *movers) enter(id string) (leave func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozenNow(id) || m.places.layout.Load().ids[id] == "" {
		return nil, false
	}
	m.inside[id]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.inside[id]--; m.inside[id] > 0 {
			return
		}
		delete(m.inside, id)
		if done := m.empty[id]; done != nil {
			close(done)
			delete(m.empty, id)
		}
	}, true
}

// wait waits until no request is in a frozen place.
func (m *movers) wait(ctx context.Context, id string) error {
	m.mu.Lock()
	if m.inside[id] == 0 {
		m.mu.Unlock()
		return nil
	}
	done := m.empty[id]
	if done == nil {
		done = make(chan struct{})
		m.empty[id] = done
	}
	m.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for calls in place %s: %w", id, ctx.Err())
	}
}

// list returns the places that are frozen for a move, and the copies that are not in use.
func (m *movers) list() []fleet.Marked {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []fleet.Marked{}
	for _, marks := range []map[string]claims.Mark{m.frozen, m.copies} {
		for id, mark := range marks {
			all = append(all, fleet.Marked{Place: id, Mark: mark})
		}
	}
	order.By(all, func(a, b *fleet.Marked) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.From, b.From))
	})
	return all
}

// inMove reports whether a move concerns a place at this worker, so that the place must not
// be made.
func (m *movers) inMove(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, frozen := m.frozen[id]
	_, copied := m.copies[id]
	_, busy := m.busy[id]
	return frozen || copied || busy
}

// Times in which a step of a move must make progress, in addition to the time in which
// calls may end.
const (
	stepTime  = time.Minute
	quietTime = 5 * time.Minute // for a step that reads or writes large files, for example a database
)

// lock makes sure that only one step of a place runs at a time. id comes from a front and
// becomes a path, so lock refuses a name that no place can have.
func (m *movers) lock(id string) (unlock func(), err error) {
	if err := named(id); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch until, busy := m.busy[id]; {
	case busy && time.Now().Before(until):
		return nil, fleet.ErrAtWork
	case busy:
		return nil, fleet.ErrBusy
	}
	m.busy[id] = time.Now().Add(stepTime)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.busy, id)
	}, nil
}

// expect sets the time in which the running step of a place must make progress next.
func (m *movers) expect(id string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy[id] = time.Now().Add(wait)
}

// named returns a refusal if id is not a valid name of a place.
func named(id string) error {
	tenant, name := splitID(id)
	if !policies.IsName(tenant) || name != "" && !policies.IsName(name) || placeID(tenant, name) != id {
		return refusal("this is not a valid name of a place")
	}
	return nil
}

func refusal(format string, args ...any) error {
	return &fleet.Refusal{Why: fmt.Sprintf(format, args...)}
}

// Do runs a step of a move.
func (m *movers) Do(ctx context.Context, s fleet.Step, at fleet.Marked) (fleet.Looked, error) {
	if s == fleet.StepLook {
		return m.look(ctx, at)
	}
	unlock, err := m.lock(at.Place)
	if err != nil {
		return fleet.Looked{}, err
	}
	defer unlock()
	switch s {
	case fleet.StepFreeze:
		err = m.freeze(ctx, at)
	case fleet.StepTake:
		err = m.take(ctx, at)
	case fleet.StepDrop:
		err = m.drop(ctx, at)
	case fleet.StepThaw:
		err = m.thaw(ctx, at)
	case fleet.StepDiscard:
		err = m.discard(at)
	case fleet.StepLook, fleet.StepPack, fleet.StepReceive: // other methods run these steps
		err = refusal("the step %q is not one of this request", s)
	}
	return fleet.Looked{}, err
}

// look reports whether a place can move from this worker or to this worker.
func (m *movers) look(ctx context.Context, at fleet.Marked) (l fleet.Looked, err error) {
	if err := named(at.Place); err != nil {
		return l, err
	}
	if l.Last, err = m.dir.last(at.Place); err != nil {
		return l, err
	}
	if at.From != "" {
		return l, m.room(at)
	}
	if !m.dir.has(at.Place) {
		return l, refusal("it does not have the place")
	}
	sizes, err := placefile.Measure(ctx, m.dir.of(at.Place))
	l.Files, l.Bytes = sizes.Files, sizes.Bytes
	return l, final(err)
}

// room returns the reason why a place cannot move to this worker.
func (m *movers) room(at fleet.Marked) error {
	tenant, name := splitID(at.Place)
	switch {
	case !m.places.layout.Load().names(tenant, name) || placeID(tenant, name) != at.Place:
		return refusal("its policy does not name the place; give all workers the same policy")
	case m.dir.has(at.Place):
		return refusal("it already has a directory of the place, which a move may have left; the fleet removes this directory when all workers are linked")
	}
	return nil
}

// final returns a refusal if another try of the step would fail with the same error, and
// err otherwise.
func final(err error) error {
	refused, is := errors.AsType[*placefile.Refusal](err)
	switch {
	case is:
		return &fleet.Refusal{Why: refused.Why}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return refusal("its disk has no room for the place")
	}
	return err
}

// freeze ends what runs in a place. From then on, the place answers nothing and gets no new
// process. Calls have the time of --drain to end.
func (m *movers) freeze(ctx context.Context, at fleet.Marked) error {
	if !m.dir.has(at.Place) {
		return refusal("it does not have the place")
	}
	mark, err := m.dir.mark(at.Place)
	if err != nil {
		return err
	}
	gone, err := readMark(m.dir.goneFile(at.Place))
	if err != nil {
		return err
	}
	if !mark.Freezes(at.Move) || at.Move <= gone.Move || at.To == "" {
		return refusal("move %d of the place has ended", at.Move)
	}
	if _, err := placefile.Measure(ctx, m.dir.of(at.Place)); err != nil {
		return final(err)
	}
	next := claims.Mark{Move: at.Move, To: at.To}
	if mark != next {
		if err := m.record(ctx, "place-frozen", at, "move to worker "+at.To); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.frozen[at.Place] = next
	m.mu.Unlock()
	if err := m.dir.setMark(at.Place, next); err != nil {
		return err // it stays frozen, because it is not known whether the mark is on the disk
	}
	m.places.moved()
	if err := m.close(ctx, at.Place); err != nil {
		return err
	}
	if err := m.whole(at.Place); err != nil {
		return errors.Join(err, m.thaw(ctx, at))
	}
	return nil
}

// close closes a frozen place, and waits for its requests. A place that cannot be closed
// stays frozen, because it may still change.
func (m *movers) close(ctx context.Context, id string) error {
	m.expect(id, m.drain+stepTime)
	if err := m.places.release(context.WithoutCancel(ctx), m.dir.workspace(id), m.drain); err != nil {
		return fmt.Errorf("close place %s, which stays closed: %w", id, err)
	}
	return m.wait(ctx, id)
}

// whole returns a refusal if a part of a place is stored elsewhere, and so would not move
// with it.
func (m *movers) whole(id string) error {
	dir := filepath.Join(m.state, sandbox.WorkspacesDir)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	store, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	all, err := store.List()
	if err != nil {
		return err
	}
	for _, set := range all {
		if set.Base == m.dir.workspace(id) {
			return refusal("boxes have changes of this place that nobody has applied (overlay workspace %s), and those do not move; apply or discard them at the worker with `belljar workspace`", set.ID)
		}
	}
	return nil
}

// Pack writes a frozen place to out. A place that is not moved is frozen while it is
// written.
func (m *movers) Pack(ctx context.Context, at fleet.Marked, out io.Writer) error {
	unlock, err := m.lock(at.Place)
	if err != nil {
		return err
	}
	defer unlock()
	if !m.dir.has(at.Place) {
		return refusal("it does not have the place")
	}
	mark, err := m.dir.mark(at.Place)
	switch {
	case err != nil:
		return err
	case at.Move > 0 && !mark.Frozen(at.Move):
		return refusal("the place is not frozen for move %d", at.Move)
	case at.Move == 0 && mark.To != "":
		return refusal("the place is being moved")
	case at.Move == 0:
		resume, err := m.pause(ctx, at.Place)
		defer resume()
		if err != nil {
			return err
		}
		if err := m.record(ctx, "place-exported", at, "an operator"); err != nil {
			return err
		}
	}
	// it is already closed, unless a front has skipped the step that freezes it
	if err := m.close(ctx, at.Place); err != nil {
		return err
	}
	m.expect(at.Place, quietTime)
	out = expecting{out, func() { m.expect(at.Place, stepTime) }}
	return final(placefile.Pack(ctx, m.dir.of(at.Place), placefile.Manifest{Place: at.Place, Made: time.Now().UTC(), Version: buildinfo.Version()}, out))
}

// expecting is a writer that reports progress at each part.
type expecting struct {
	io.Writer
	alive func()
}

// Write writes a part.
func (e expecting) Write(p []byte) (int, error) {
	e.alive()
	return e.Writer.Write(p)
}

// pause freezes a place until resume is called. The pause ends with the process.
func (m *movers) pause(ctx context.Context, id string) (resume func(), err error) {
	m.mu.Lock()
	m.paused[id] = true
	m.mu.Unlock()
	m.places.moved()
	resume = func() {
		m.mu.Lock()
		delete(m.paused, id)
		m.mu.Unlock()
		m.places.moved()
	}
	if err := m.close(ctx, id); err != nil {
		return resume, err
	}
	return resume, m.whole(id)
}

// Receive makes a copy of a place from a stream. The copy is not in use.
func (m *movers) Receive(ctx context.Context, at fleet.Marked, in io.Reader, alive func()) error {
	unlock, err := m.lock(at.Place)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	copied, is := m.copies[at.Place]
	m.mu.Unlock()
	gone, err := readMark(m.dir.goneFile(at.Place))
	switch {
	case err != nil:
		return err
	case is && copied.Move == at.Move:
		return nil
	case at.Move <= gone.Move || is && copied.Move > at.Move || at.From == "":
		return refusal("move %d of the place has ended", at.Move)
	}
	if err := m.room(at); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Join(m.dir.dir, workdirIncoming), unfinished)
	if err != nil {
		return err
	}
	if err := m.unpack(ctx, at, made, in, func() {
		m.expect(at.Place, quietTime)
		alive()
	}); err != nil {
		return final(errors.Join(err, removeTree(made)))
	}
	if is {
		if err := m.dir.remove(m.dir.incoming(at.Place)); err != nil {
			return err
		}
	}
	next := claims.Mark{Move: at.Move, From: at.From}
	if err := m.dir.complete(made, at.Place, next); err != nil {
		return final(err)
	}
	m.mu.Lock()
	m.copies[at.Place] = next
	m.mu.Unlock()
	m.places.moved()
	return nil
}

// unpack makes a place from a stream. If the stream is of a place with another name, its
// state is dropped, because the rows there contain the other name.
func (m *movers) unpack(ctx context.Context, at fleet.Marked, made string, in io.Reader, alive func()) error {
	manifest, err := placefile.Unpack(ctx, made, in, alive)
	if err != nil || manifest.Place == at.Place {
		return err
	}
	if at.From != claims.FromFile {
		return refusal("the copy that arrived is of the place %q", manifest.Place)
	}
	state := filepath.Join(made, placefile.State)
	return errors.Join(os.RemoveAll(state), os.Mkdir(state, 0o700))
}

// take puts a copy into use.
func (m *movers) take(ctx context.Context, at fleet.Marked) error {
	mark, err := m.dir.mark(at.Place)
	switch {
	case err != nil:
		return err
	case m.dir.has(at.Place) && mark.Move >= at.Move:
		return m.places.adopt(at.Place)
	}
	m.mu.Lock()
	copied, is := m.copies[at.Place]
	m.mu.Unlock()
	if !is || copied.Move != at.Move {
		return refusal("it has no copy of the place for move %d", at.Move)
	}
	if err := m.record(ctx, "place-taken", at, "move from worker "+at.From); err != nil {
		return err
	}
	if err := m.dir.take(at.Place); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.copies, at.Place)
	m.mu.Unlock()
	if err := m.places.adopt(at.Place); err != nil {
		return err
	}
	m.open(ctx, at.Place)
	return nil
}

// open opens a place that has arrived: its callbacks fire only if it is open.
func (m *movers) open(ctx context.Context, id string) {
	if _, err := m.places.at(ctx, m.dir.workspace(id)); err != nil {
		m.log.Error("a place cannot be opened; the next request for it tries again", "place", id, "err", err)
	}
}

// drop removes a frozen place that another worker now serves.
func (m *movers) drop(ctx context.Context, at fleet.Marked) error {
	if !m.dir.has(at.Place) {
		return nil
	}
	mark, err := m.dir.mark(at.Place)
	if err != nil {
		return err
	}
	if !mark.Frozen(at.Move) {
		return refusal("the place is not frozen for move %d", at.Move)
	}
	if err := m.close(ctx, at.Place); err != nil {
		return err
	}
	if err := m.record(ctx, "place-left", at, "move to worker "+mark.To); err != nil {
		return err
	}
	m.places.disown(at.Place)
	if err := m.dir.retire(m.dir.of(at.Place), at.Place, at.Move); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.frozen, at.Place)
	m.mu.Unlock()
	m.places.moved()
	return nil
}

// thaw puts a frozen place into use again.
func (m *movers) thaw(ctx context.Context, at fleet.Marked) error {
	if !m.dir.has(at.Place) {
		return nil
	}
	mark, err := m.dir.mark(at.Place)
	if err != nil || !mark.Frozen(at.Move) {
		return err
	}
	if err := m.record(ctx, "place-thawed", at, "the place stays at this worker"); err != nil {
		return err
	}
	if err := m.dir.setMark(at.Place, claims.Mark{Move: at.Move}); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.frozen, at.Place)
	m.mu.Unlock()
	m.places.moved()
	m.open(ctx, at.Place)
	return nil
}

// discard removes a copy.
func (m *movers) discard(at fleet.Marked) error {
	m.mu.Lock()
	copied, is := m.copies[at.Place]
	m.mu.Unlock()
	if is && copied.Move > at.Move || m.dir.has(at.Place) && !is {
		return nil
	}
	if err := m.dir.retire(m.dir.incoming(at.Place), at.Place, at.Move); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.copies, at.Place)
	m.mu.Unlock()
	m.places.moved()
	return nil
}

// record records a step before it is taken. After an error the step must not be taken,
// because the policy requires the record and it cannot be written. If a step is repeated,
// it is recorded again.
func (m *movers) record(ctx context.Context, event string, at fleet.Marked, by string) error {
	tenant, _ := splitID(at.Place)
	if err := m.audit.commit(ctx, audit.Session{Event: event, Tenant: tenant, Workspace: m.dir.workspace(at.Place), By: by}); err != nil {
		return fmt.Errorf("nothing was done: the policy requires an audit record of %s, and it cannot be written: %w", event, err)
	}
	m.log.Info("a place moves", "event", event, "place", at.Place, "move", at.Move)
	return nil
}
