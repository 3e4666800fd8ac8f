package sandbox

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/kernel"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/workspace"
)

// If a grant says overlay, a box sees an overlayfs at /workspace: the workspace at the
// bottom, the changes of earlier boxes of the same set above it, and on top a layer of its
// own, which all writes go to. Nothing of it reaches the workspace until a person applies
// it (package workspace), so nothing of the workspace has to be protected.
//
// The init mounts the overlayfs with its own rights, as an ordinary user in a user
// namespace. The overlayfs then keeps its marks in user extended attributes (userxattr),
// and follows no marks that a box could have planted in the workspace itself. The layers
// are attached at fixed names in a place of the old root, so no path of the host is part of
// a mount option, in which a comma or colon would have a meaning.

// WorkspacesDir is the directory of overlay workspaces, below Config.State.
const WorkspacesDir = "workspaces"

// SetID returns the name of the set of a box in a store of workspaces: the name of the box,
// with a checksum of the workspace, so that the same name can be used with each workspace.
func SetID(box, base string) string {
	const most = 48
	id := []byte(box[:min(len(box), most)])
	for i, c := range id {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '_' || c == '.')
		if !plain {
			id[i] = '_'
		}
	}
	if len(id) == 0 || id[0] == '_' {
		id = append([]byte("x"), id...)
	}
	sum := crc32.ChecksumIEEE([]byte(base))
	if string(id) != box {
		sum ^= crc32.ChecksumIEEE([]byte(box)) // two different boxes get two names
	}
	return fmt.Sprintf("%s-%08x", id, sum)
}

// workspaces returns the store of overlay workspaces, which is opened when it is first
// needed.
func (s *Supervisor) workspaces() (*workspace.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	if s.cfg.State == "" {
		return nil, &limit.Refusal{Message: "an overlay workspace is kept in the state directory, and none was given; start belljar with --state"}
	}
	store, err := workspace.Open(filepath.Join(s.cfg.State, WorkspacesDir))
	if err != nil {
		return nil, err
	}
	s.store = store
	return store, nil
}

// lease leases the set of a box. It makes the set if it does not exist.
func (w *Workspace) lease(id string, g policies.Grant) (*workspace.Lease, error) {
	state := w.sup.cfg.State
	if inside, err := filepath.Rel(w.dir, state); state != "" && err == nil && inside != ".." && !strings.HasPrefix(inside, "../") {
		return nil, &limit.Refusal{Message: fmt.Sprintf("the state directory %s lies in the workspace, where a box would find its own layers; name another one with --state", state)}
	}
	store, err := w.sup.workspaces()
	if err != nil {
		return nil, err
	}
	p := g.Protect()
	use := func() (*workspace.Lease, error) {
		return store.Use(SetID(id, w.dir), g.Tenant(), w.dir, workspace.Protect{Off: p.Off, Also: p.Also})
	}
	l, err := use()
	if errors.Is(err, workspace.ErrLive) && w.sup.cfg.Before != nil {
		l, err = w.afterBefore(use)
	}
	if err != nil {
		return nil, &limit.Refusal{Message: "the overlay workspace cannot be used: " + err.Error(), Err: err}
	}
	return l, nil
}

// afterBefore calls use again and again, until the set is free or the server that handed
// over to this one has ended.
func (w *Workspace) afterBefore(use func() (*workspace.Lease, error)) (l *workspace.Lease, err error) {
	look := time.NewTicker(beforeEvery)
	defer look.Stop()
	for {
		ended := false
		select {
		case <-w.sup.cfg.Before:
			ended = true
		case <-look.C:
		}
		if l, err = use(); ended || !errors.Is(err, workspace.ErrLive) {
			return l, err
		}
	}
}

// beforeEvery is the time between attempts to lease a set that another server has.
const beforeEvery = 50 * time.Millisecond

// addLayer adds one directory that is a layer. If the supervisor is root, it clones the
// directory here, with the owner of the workspace as the box's user, so that all layers
// belong to that owner, whichever user works in them.
func (w *Workspace) addLayer(p *plan, dir *os.File, path string, writable bool, uid int) error {
	m := mount{source: path, target: WorkspaceDir, dir: true, writable: writable, layer: true, file: -1}
	if w.sup.root {
		ns, err := w.sup.idmap(w.dir, uid)
		if err != nil {
			return err
		}
		attr := mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE}
		if !writable {
			attr.set |= unix.MOUNT_ATTR_RDONLY
		}
		// Mounts below the directory are left out, because overlayfs does not show them
		// either.
		m.file, err = openTreeFlags(int(dir.Fd()), "", attr, ns, 0)
		if err != nil {
			return &limit.Refusal{Message: fmt.Sprintf("the file system of %s cannot map its owner to a box's user, which an overlay needs; "+
				"put the workspace and the state directory on ext4, xfs, btrfs or tmpfs, and see \"belljar doctor\"", path), Err: err}
		}
	}
	p.mounts = append(p.mounts, m)
	return nil
}

// stepOverlay names the step that fails if the host cannot mount overlays.
const stepOverlay = "mount the overlay workspace"

// overlay mounts the layers over each other, into a mount that is not attached yet. slots
// are the clones of p.mounts. The old root still exists, and what is mounted on it
// disappears with it.
func (p *plan) overlay(b *builder, slots []boxinit.Slot) boxinit.Slot {
	b.Step(stepOverlay)
	if p.tree >= 0 {
		return b.clone(p.treeSlot())
	}
	b.Call(unix.SYS_MOUNT, "belljar", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,nr_inodes=256,mode=700")
	b.Call(unix.SYS_CHDIR, base)
	n := 0
	var lower []string
	for i, m := range p.mounts {
		if !m.layer {
			continue
		}
		name := strconv.Itoa(n)
		b.Call(unix.SYS_MKDIRAT, atFDCWD, name, 0o700)
		b.Call(unix.SYS_MOVE_MOUNT, slots[i], "", atFDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if n > 0 {
			lower = append(lower, name)
		}
		n++
	}
	return p.keep(b, b.layered(strings.Join(lower, ":"), "0/"+workspace.Upper, "0/"+workspace.Work))
}

// attachOverlay attaches the overlay to the new root, which is the working directory.
func attachOverlay(b *builder, tree boxinit.Slot) {
	b.Step("attach " + WorkspaceDir)
	b.dir(WorkspaceDir)
	b.Call(unix.SYS_MOVE_MOUNT, tree, "", atFDCWD, in(WorkspaceDir), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// explainOverlay returns an error that says what to do if the host could not mount the
// overlay.
func (w *Workspace) explainOverlay(step string, errno error) error {
	if step != stepOverlay {
		return nil
	}
	err := fmt.Errorf("%s: %w", step, errno)
	// In a user namespace, mounts beneath a directory cannot be separated from it, and
	// overlayfs accepts no layer with mounts in it. For root, the layers are cloned without
	// such mounts.
	if info, readErr := os.ReadFile("/proc/self/mountinfo"); !w.sup.root && readErr == nil {
		if beneath := mountsBeneath(string(info), w.dir); len(beneath) > 0 {
			return &limit.Refusal{
				Message: fmt.Sprintf("something is mounted at %s, in the workspace, and only root can make an overlay of that, so no command runs; unmount it, or have the operator give the profile workspace: rw or ro", beneath[0]),
				Err:     err,
			}
		}
	}
	return &limit.Refusal{
		Message: "this host cannot mount an overlay workspace, so no command runs; run \"belljar doctor\" to see what is missing, or have the operator give the profile workspace: rw or ro",
		Err:     err,
	}
}

// mountsBeneath returns the places in a directory on which something is mounted, from the
// text of proc_pid_mountinfo(5).
func mountsBeneath(info, dir string) []string {
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")
	var all []string
	for line := range strings.Lines(info) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := plain.Replace(fields[4]); strings.HasPrefix(point, strings.TrimSuffix(dir, "/")+"/") {
			all = append(all, point)
		}
	}
	return all
}

// ErrNoOverlay is returned by methods that need an overlay workspace.
var ErrNoOverlay = errors.New("the box has no overlay workspace")

// tryLayers mounts an overlay like that of a box, on layers in /tmp.
func tryLayers() error {
	for _, dir := range []string{"/tmp/lower", "/tmp/upper", "/tmp/work"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	for _, o := range [][2]string{{"lowerdir", "/tmp/lower"}, {"upperdir", "/tmp/upper"}, {"workdir", "/tmp/work"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return fmt.Errorf("fsconfig %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
		return fmt.Errorf("fsconfig userxattr: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("fsconfig create: %w", err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	unix.Close(tree)
	return nil
}

// checkLayers returns whether a box can have an overlay workspace, from the error of the
// attempt.
func checkLayers(a around, err error) Check {
	c := Check{Name: "overlay workspace", OK: true, Detail: "an overlay can be mounted in a user namespace"}
	if err == nil && a.root && !kernel.Since(5, 19) {
		err = errors.New("layers with a mapped owner need Linux 5.19")
	}
	if err == nil {
		return c
	}
	c.OK, c.Detail = false, err.Error()
	c.Degraded = "a profile with workspace: overlay opens no box here"
	c.Mend = "use Linux 5.11 or later (5.19 as root) with the module overlay loaded, `modprobe overlay`, and let the container around belljar, if there is one, mount overlays"
	return c
}
