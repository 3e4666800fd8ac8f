package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
)

// Box is one isolated place, with the mounts, limits and network of the grant
// that it was opened with. Commands in it may run one after the other or at the
// same time. They see each other's files, and also each other's processes if the
// host has a writable cgroup v2 tree. They see nothing of other boxes. All
// methods are safe for concurrent use.
type Box struct {
	sup   *Supervisor
	home  *Workspace
	id    string
	grant policies.Grant
	open  bool // the box is fully built; guarded by the supervisor's mu

	means means    // what the supervisor keeps for the box
	life  life     // the times in which the box has an init
	init  initProc // init of the box
	table table    // commands of the box
	ports ports    // ports of the box that can be reached from the host

	regranting sync.Mutex // allows one new policy at a time; taken before table.mu
}

func newBox(w *Workspace, id string, g policies.Grant) *Box {
	b := &Box{sup: w.sup, home: w, id: id, grant: g, table: table{box: id, running: map[uint64]*Job{}}, ports: ports{allowed: g.Publish()}}
	b.life = life{box: b, kept: kept{overlay: -1, storage: -1}}
	b.init = newInitProc(&b.table, &w.sup.patience)
	return b
}

// start makes the box, with cgroups that have the given name and as the user uid of the
// host, and waits until its init is ready.
func (b *Box) start(ctx context.Context, name string, uid int) error {
	err := b.means.open(b, name, uid)
	if err == nil {
		b.life.waking.Lock()
		err = b.life.live(ctx)
		b.life.waking.Unlock()
	}
	if err == nil && b.life.kept.able {
		b.life.kept.places, err = b.life.kept.find(b.means.area)
	}
	if err != nil {
		b.shut()
		return fmt.Errorf("open box %s: %w", b.id, err)
	}
	if b.means.lease != nil {
		b.means.lease.Settle() // the box was built in the meantime
	}
	if b.means.held[policies.LimitMemory] == limit.Watchdog {
		b.table.wg.Go(func() { watchMemory(b) })
	}
	return nil
}

// ID returns the name that Open was called with.
func (b *Box) ID() string { return b.id }

// Grant returns the grant that the box was opened with.
func (b *Box) Grant() policies.Grant { return b.grant }

// StartDir returns the directory in which a command starts that names none. It is the
// image's, if the box has an image with one, and no workspace.
func (b *Box) StartDir() string { return startDir(b.grant, b.means.runtime()) }

// Path returns the list of directories in which the box's commands look for programs: the
// PATH that belljar, the image or the profile sets.
func (b *Box) Path() string {
	for _, e := range b.means.env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			return list
		}
	}
	return ""
}

// Limits returns how each limit is enforced in this box.
func (b *Box) Limits() limit.Enforcements { return maps.Clone(b.means.held) }

// Broken returns a channel that is closed when the box ends: by Close, or because
// its init ended.
func (b *Box) Broken() <-chan struct{} { return b.init.gone }

// Close kills all processes in the box, waits until they have ended, and removes
// what the host keeps for the box. Commands that run get a Result with status
// Killed. Close may be called twice and concurrently.
func (b *Box) Close() error {
	b.shut()
	b.sup.forget(b.id)
	return nil
}

// shut does the work of Close for a box that may not be fully built.
func (b *Box) shut() {
	l := &b.life
	b.table.mu.Lock()
	b.table.end(ErrClosed)
	conn := b.init.conn
	if b.init.process != nil {
		b.init.kill()
	}
	b.table.mu.Unlock()
	if conn != nil {
		// Without the lock: Close waits for a goroutine that has just received a message,
		// and that goroutine looks up the message's command in the table.
		conn.Close()
	}
	l.waking.Lock() // from here on no goroutine parks or wakes the box, or starts a command in it
	if l.parked || l.ended == nil {
		b.init.end()
	}
	l.waking.Unlock()
	b.table.coolDown()
	for _, p := range b.Published() {
		_ = p.Close()
	}
	b.table.wg.Wait() // waits for listen and for the goroutines of all jobs
	b.means.release()
	b.table.mu.Lock()
	for _, t := range []*time.Timer{b.init.late, l.resting} {
		if t != nil {
			t.Stop()
		}
	}
	b.table.mu.Unlock()
	b.table.close()
}

// Environ returns the environment of the box's commands, which belljar, the image
// and the profile set.
func (b *Box) Environ() []string { return slices.Clone(b.means.env) }

// Jobs returns the background jobs that the box remembers, oldest first: all
// running ones, and finished ones up to 64 in total.
func (b *Box) Jobs() []*Job { return b.table.remembered() }

// Job returns the background job with that id, and false if the box does not remember it.
func (b *Box) Job(id int64) (*Job, bool) {
	for _, j := range b.Jobs() {
		if j.ID() == id {
			return j, true
		}
	}
	return nil, false
}

// Output returns the output with that id: of a background job, or of one of the last 64
// foreground commands. If these use more than 256 MiB on disk, the oldest outputs keep only
// their first 64 KiB.
func (b *Box) Output(id string) (*Output, bool) { return b.table.output(id) }
