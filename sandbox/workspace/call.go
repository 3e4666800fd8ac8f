package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
)

// Bounds of the checkpoints that are made after calls.
const (
	callsKept = 32
	callBytes = 256 << 20       // bytes written for one checkpoint; shared blocks and files do not count
	callTime  = 2 * time.Second // time for one checkpoint
	callRest  = 9               // calls without a checkpoint after a checkpoint that cost too much
	callNote  = 120             // bytes of a note
)

// copyPrefix begins the name of a layer that is being copied, in the directory
// of its set.
const copyPrefix = "copy-"

// ErrSkipped means that a call got no checkpoint, because the checkpoint would cost too
// much or another program works on the set. The error that wraps ErrSkipped gives the
// reason.
var ErrSkipped = errors.New("no checkpoint")

// Calls makes a checkpoint of a leased set after each call that changed it. Its
// methods are safe for concurrent use, and fail once the lease is closed.
type Calls struct {
	lease *Lease
	most  int64 // bytes that one checkpoint may write
	// Guarded by the lease's turn.
	last *Mark // the set after the last call; nil if unknown
	rest int   // number of further calls that get no checkpoint
}

// Calls begins to make checkpoints: the first checkpoint covers the changes from now on.
func (l *Lease) Calls() *Calls {
	c := &Calls{lease: l, most: callBytes}
	c.last, _ = l.Mark() // if Mark fails, the first checkpoint reports the error
	return c
}

// Checkpoint saves the present content of the set if it has changed since the end of the
// last call, and returns the name of the checkpoint. If nothing changed, the name is "".
// note describes the call. The box can work meanwhile. Checkpoint looks at all files that
// the set changed, and copies those that changed since the last checkpoint. If that takes
// over 2 seconds or 256 MiB, it makes no checkpoint and returns ErrSkipped, for the next
// nine calls too. If another program works on the set, it returns ErrSkipped for this call
// alone. The newest 32 checkpoints of calls are kept.
func (c *Calls) Checkpoint(ctx context.Context, note string) (name string, err error) {
	l := c.lease
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-l.gone:
		return "", fmt.Errorf("checkpoint set %s: the box is gone", l.ID)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	now, err := l.Mark()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSkipped, err)
	}
	last := c.last
	c.last = now
	switch {
	case last != nil && now.same(last):
		return "", nil
	case c.rest > 0:
		c.rest--
		return "", fmt.Errorf("%w: an earlier one was too expensive; %d more calls get no checkpoint", ErrSkipped, c.rest)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, fmt.Errorf("%w: what changed takes over %s to copy", ErrSkipped, callTime))
	defer cancel()
	name, err = l.checkpointCall(ctx, c.most, note)
	switch {
	case errors.Is(err, ErrBusy): // whatever the call changed, the next one saves it
		c.last = last
		return "", fmt.Errorf("%w: %w", ErrSkipped, ErrBusy)
	case errors.Is(err, ErrSkipped):
		c.rest = callRest
		return "", fmt.Errorf("%w; the next %d calls get no checkpoint either", err, callRest)
	case err != nil:
		return "", fmt.Errorf("checkpoint set %s: %w", l.ID, err)
	}
	return name, nil
}

// checkpointCall makes the checkpoint. The caller holds the lease's turn, so the set is
// live.
func (l *Lease) checkpointCall(ctx context.Context, most int64, note string) (string, error) {
	s := l.store
	// The set's file may have changed since the set was leased, so it is read again. The
	// directory of the set is still the lease's.
	h := &held{store: &s.directory, id: l.ID, dir: l.held.dir}
	defer h.unlock()
	if err := h.busyWithin(ctx); err != nil {
		return "", err
	}
	m := &h.meta
	none, err := s.empty(m.Top)
	if err != nil {
		return "", err
	}
	scratch, layers := "", m.Layers
	if !none {
		scratch = copyPrefix + newID()
		if layers, err = l.copyTop(m, scratch, pacer(ctx, most)); err != nil {
			return "", err
		}
	}
	h.see()
	name, err := h.enterCall(note, scratch, layers)
	l.loose = l.loose || err == nil
	if err != nil && scratch != "" {
		l.throw(scratch)
	}
	return name, err
}

// copyTop copies the top into the set's own directory, where no lock of the store is
// needed. It returns the layers below the copy. The copy will be the highest layer of the
// checkpoint.
func (l *Lease) copyTop(m *meta, scratch string, pace func(n int64) error) ([]string, error) {
	s := l.store
	from, below := []string{m.Top}, m.Layers
	if len(m.Layers)+2 > maxLayers {
		from, below = append(from, m.Layers...), nil
	}
	all, err := s.uppers(from)
	if err != nil {
		return nil, err
	}
	defer all.close()
	home := setsDir + "/" + l.ID
	if err := s.layerAt(home, scratch, m); err != nil {
		return nil, err
	}
	c := &copying{m: m, left: maxMarked, pace: pace}
	if c.prior = s.priorCall(m); c.prior != nil {
		defer c.prior.Close()
	}
	if err := s.copyInto(home+"/"+scratch, all, c); err != nil {
		l.throw(scratch)
		return nil, err
	}
	return below, nil
}

// pacer returns a function that bounds the bytes of a copy by most and its time by ctx.
func pacer(ctx context.Context, most int64) func(n int64) error {
	left := most
	return func(n int64) error {
		if left -= n; left < 0 {
			return fmt.Errorf("%w: over %d MiB changed since the last one", ErrSkipped, most>>20)
		}
		return context.Cause(ctx)
	}
}

// priorCall opens the layer of the newest checkpoint of a call. It returns nil if there is
// no such checkpoint.
func (d *directory) priorCall(m *meta) *os.File {
	for _, c := range slices.Backward(m.Checkpoints) {
		if c.Call && len(c.Layers) > 0 {
			dir, err := d.upper(c.Layers[0])
			if err != nil {
				return nil
			}
			return dir
		}
	}
	return nil
}

// throw moves a copied layer that is not used to the trash.
func (l *Lease) throw(scratch string) {
	_ = l.store.trash(setsDir+"/"+l.ID, scratch) // if that fails, the next lease tries again
	l.store.sweep()
}

// throwAll moves the unused copies of an earlier lease that was not closed to the trash.
func (l *Lease) throwAll() {
	names, err := listDir(l.held.dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, copyPrefix) {
			l.throw(name)
		}
	}
}

// enterCall moves the copied layer, if there is one, into the store, and adds the
// checkpoint to the set. It drops the oldest checkpoints of calls.
func (h *held) enterCall(note, scratch string, layers []string) (string, error) {
	if err := h.alone(); err != nil {
		return "", err
	}
	s, m := h.store, &h.meta
	if err := m.room(); err != nil {
		return "", err
	}
	if scratch != "" {
		id := newID()
		root := int(s.root.Fd())
		if err := unix.Renameat2(root, setsDir+"/"+h.id+"/"+scratch, root, layersDir+"/"+id, unix.RENAME_NOREPLACE); err != nil {
			return "", fmt.Errorf("move the layer: %w", err)
		}
		layers = append([]string{id}, layers...)
	}
	c := checkpoint{Name: m.callName(), Time: time.Now().UTC(), Layers: layers, Call: true, Note: clip(note), Boot: bootID()}
	before := len(m.Checkpoints)
	m.Checkpoints = append(m.Checkpoints, c)
	m.dropCalls(callsKept)
	if err := h.write(); err != nil {
		return "", err // no set uses the layer, so collect removes it
	}
	if len(m.Checkpoints) <= before {
		s.collect()
		s.sweep()
	}
	return c.Name, nil
}

// room makes room for one more checkpoint. It drops only checkpoints of calls.
func (m *meta) room() error {
	if over := len(m.Checkpoints) + 1 - maxCheckpoints; over > 0 {
		m.dropCalls(m.calls() - over)
	}
	if len(m.Checkpoints) >= maxCheckpoints {
		return fmt.Errorf("%d checkpoints: %w; apply or discard the set, or fork it and continue in the fork", maxCheckpoints, ErrTooMany)
	}
	return nil
}

// calls counts the checkpoints of calls.
func (m *meta) calls() int {
	n := 0
	for _, c := range m.Checkpoints {
		if c.Call {
			n++
		}
	}
	return n
}

// dropCalls removes the oldest checkpoints of calls, so that at most keep of them are left.
func (m *meta) dropCalls(keep int) {
	drop := m.calls() - max(keep, 0)
	m.Checkpoints = slices.DeleteFunc(m.Checkpoints, func(c checkpoint) bool {
		if c.Call && drop > 0 {
			drop--
			return true
		}
		return false
	})
}

// callName returns the next name for a checkpoint of a call. No number is used twice.
func (m *meta) callName() string {
	for {
		m.Calls++
		name := "call-" + strconv.Itoa(m.Calls)
		if !slices.ContainsFunc(m.Checkpoints, func(c checkpoint) bool { return c.Name == name }) {
			return name
		}
	}
}

// clip returns a note as one line of at most callNote bytes.
func clip(note string) string {
	note = strings.Join(strings.Fields(strings.ToValidUTF8(note, "?")), " ")
	if len(note) <= callNote {
		return note
	}
	return printable.Head(note, callNote-len("...")) + "..."
}

// bootID returns the ID of the current boot of the kernel.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// keepCalls writes the checkpoints of calls to the disk. Checkpoint does not wait for that,
// so until then they survive only as long as the machine runs.
func (l *Lease) keepCalls() error {
	h := &held{store: &l.store.directory, id: l.ID, dir: l.held.dir}
	defer h.unlock()
	if err := h.busy(unix.LOCK_EX); err != nil {
		return err
	}
	loose := false
	for i := range h.meta.Checkpoints {
		if c := &h.meta.Checkpoints[i]; c.Boot == bootID() {
			loose, c.Boot = true, ""
		}
	}
	if !loose {
		return nil
	}
	if err := unix.Syncfs(int(l.store.root.Fd())); err != nil {
		return fmt.Errorf("write checkpoints to the disk: %w", err)
	}
	return h.write()
}

// torn returns why the set cannot be rolled back to a checkpoint, or nil.
func (c *checkpoint) torn() error {
	if c.Boot == "" || c.Boot == bootID() {
		return nil
	}
	return fmt.Errorf("the machine went down before checkpoint %q was on the disk; choose one of an earlier session, or discard the set", c.Name)
}
