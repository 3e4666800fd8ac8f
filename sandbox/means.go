package sandbox

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/closers"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/seccomp"
	"belljar.dev/sandbox/workspace"
)

// means are what the supervisor keeps for one box, and what its commands get. They
// outlive the box's inits. What must be closed is put on the stack of closers when it is
// opened: by open, or for the first init. Each further init gets a new guard and renewed
// execs.
type means struct {
	uid    int // user id of its processes on the host
	group  *cgroup.Group
	held   limit.Enforcements // how each limit of the box is enforced
	null   *os.File           // os.DevNull to read from, for commands without stdin
	area   *storage           // the place on disk of its storage, or nil if that is in memory
	image  *images.Tree       // image below its root, or nil
	door   *door              // the way out of the box
	execs  *execView          // the programs that its commands start, or nil if exec is not watched
	env    []string           // what every command gets, "NAME=value", sorted
	shell  string             // shell that runs scripts
	nested bool               // whether each command gets a pid namespace of its own
	lease  *workspace.Lease   // lease of an overlay workspace, or nil
	calls  *workspace.Calls   // checkpoints of an overlay workspace, or nil
	guard  *protect.Protector // protector of the workspace, or nil
	state  protect.BoxState   // guard's view of the box

	opened    closers.Stack
	releasing sync.Once
}

// open opens what the box needs before its init: cgroups with this name, limited by the
// grant, its storage, and its image. The processes of the box run as the user uid on the
// host. After an error, the caller closes what was opened.
func (m *means) open(b *Box, name string, uid int) (err error) {
	m.uid = uid
	log := b.sup.cfg.Log.With("box", b.id)
	if m.group, err = b.sup.groups.Open(name, b.grant, m.uid, b.home.disk()); err != nil {
		return err
	}
	m.opened.Do(m.group.Close)
	m.held = b.home.heldFor(b.grant)
	if m.null, err = os.Open(os.DevNull); err != nil {
		return err
	}
	m.opened.Add(m.null.Close)
	if b.grant.Storage() == policies.StorageDisk {
		l := b.grant.Limits().BoxLimits
		if m.area, err = openStorage(b.sup.cfg.Spool, l.Tmp, l.TmpFiles, m.uid); err != nil {
			return err
		}
		m.opened.Add(closers.Logged(log, "free storage", m.area.close))
	}
	if m.image, err = b.sup.useImage(b.grant); err != nil {
		return err
	}
	if m.image != nil {
		m.opened.Add(closers.Logged(log, "release the image", m.image.Close))
	}
	stopWatching, err := m.group.WatchOOM(func() {
		if !b.grant.OfBrowser() { // a browser loses one page, and notices that itself
			b.table.outOfMemory(m.group, b.init.gone)
		}
	})
	if err != nil {
		return err
	}
	m.opened.Do(stopWatching)
	return nil
}

// connect makes the door of a box, its view of execs and the environment of its commands,
// for the first init.
func (m *means) connect(b *Box, p *plan) (err error) {
	if m.door, err = b.sup.newDoor(b); err != nil {
		return err
	}
	m.opened.Do(m.door.close)
	if m.execs, err = b.sup.newExecView(b); err != nil {
		return err
	}
	m.opened.Do(m.execs.close)
	m.env, m.nested, m.shell = boxEnv(b.grant, m.image, len(m.door.Authority()) > 0), p.nested, shellOf(m.image)
	return nil
}

// watch adds what the door and the view of execs need in the box to the plan of an init.
func (m *means) watch(b *Box, p *plan) (err error) {
	if p.authority = m.door.Authority(); len(p.authority) > 0 {
		p.files[authorityFile] = string(p.authority)
		store, err := javaStore(p.authority)
		if err != nil {
			return err
		}
		p.files[storeFile] = string(store)
	}
	if m.execs == nil {
		return nil
	}
	m.execs.renew(newExecFiles(p, b.home.dir, b.sup.cfg.State))
	p.ours = m.execs.ours
	p.watcher, err = seccomp.ExecFilter(p.ours)
	return err
}

// overlay adds the layers of the box's set to its plan, if the grant has an overlay
// workspace.
func (m *means) overlay(b *Box, p *plan) error {
	if b.grant.Workspace() != policies.AccessOverlay {
		return nil
	}
	var err error
	if b.life.kept.overlay >= 0 {
		// the plan gets a duplicate of the mount that an earlier init has made
		p.tree, err = unix.FcntlInt(uintptr(b.life.kept.overlay), unix.F_DUPFD_CLOEXEC, 0)
		return err
	}
	if m.lease == nil {
		if m.lease, err = b.home.lease(b.id, b.grant); err != nil {
			return err
		}
		m.opened.Add(closers.Logged(b.sup.cfg.Log.With("box", b.id), "release the workspace's layers", m.lease.Close))
		if b.sup.cfg.Checkpoints {
			m.calls = m.lease.Calls()
		}
	}
	dirs := m.lease.Dirs()
	files := append([]*os.File{m.lease.Top}, m.lease.Frozen...)
	if len(p.passed())+len(files)+1 > boxinit.MaxFiles {
		return &limit.Refusal{Message: fmt.Sprintf("profile %q mounts too many paths for an overlay of %d layers; apply or discard the set %s", b.grant.Profile(), len(files), m.lease.ID)}
	}
	for i, f := range files {
		if err := b.home.addLayer(p, f, dirs[i], i == 0, m.uid); err != nil {
			return err
		}
	}
	return b.home.addLayer(p, m.lease.Base, b.home.dir, false, m.uid)
}

// detach closes the parts of the means that lead into an init that has ended. The next init
// gets such parts again.
func (m *means) detach() {
	m.door.detach()
	m.execs.close()
}

// release closes the means, once. The init of the box has ended.
func (m *means) release() {
	m.releasing.Do(func() { _ = m.opened.Close() }) // errors that matter are logged
}
