package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
)

// The root of a box has contents of its own: mount points, links and small files. They are
// the same in all boxes of a profile. A template is a file system in memory with only these
// contents. It is made once, nobody can write to it, and it is the root of all these boxes.
// That saves each box about fifty files, five pages and their names
// (docs/decisions/2026-11-22-root-templates.md).
//
// A template is made like a box: an init in namespaces of its own makes the calls of a
// script, hands the mount over and ends. So its file system does not belong to root of the
// host, and an ordinary user can make it. An init clones the mount, which requires Linux
// 6.15; on older kernels, each box makes its own root.
type templates struct {
	mu   sync.Mutex
	made map[[sha256.Size]byte]*template
	none bool // whether this kernel cannot clone a template
}

// template is one template. The fields below once are valid after once has run.
type template struct {
	once sync.Once
	file int // descriptor of the mount, or -1
}

// maxTemplates bounds the number of templates. Boxes with other roots make them themselves.
const maxTemplates = 64

// templateUID owns the templates of a root supervisor. It belongs to no account and to no
// tenant.
const templateUID = firstUID + maxTenants

// stepTemplate names the step that fails on a kernel that cannot clone mounts that are
// attached nowhere.
const stepTemplate = "clone the template"

// templated reports whether the root of p can be shared. The root of an image is
// an overlay, and the certificates of a door are for one box.
func (p *plan) templated() bool {
	return len(p.authority) == 0 && !imaged(p.mounts)
}

// useTemplate gives p a template as its root, if there is one. It also finds out
// whether the file systems that the box writes to can be kept, which needs the
// same features of the kernel. For a root that cannot be shared it makes an empty
// template just to find that out.
func (s *Supervisor) useTemplate(ctx context.Context, p *plan) {
	b := &builder{Script: boxinit.NewScript(0), made: map[string]bool{"/": true}, sealed: true}
	if p.templated() {
		p.addTemplate(b)
	} else {
		(&plan{tree: -1, hostFacts: p.hostFacts}).addTemplate(b)
	}
	text, err := b.Encode()
	if err != nil {
		return // the script is too long for an init
	}
	t := s.templates.get(sha256.Sum256(text))
	if t == nil {
		return
	}
	t.once.Do(func() {
		if t.file, err = s.makeTemplate(b.Script); err == nil {
			return
		}
		t.file = -1
		level := slog.LevelWarn
		if errors.Is(err, errNoTemplates) {
			s.templates.stop()
			level = slog.LevelDebug
		}
		s.cfg.Log.Log(ctx, level, "each box makes its own root, without a template", "err", err)
	})
	if t.file < 0 {
		return
	}
	// Landlock forbids making message queues (mq_overview(7)), because no rule
	// allows their file system. Without it a command could leave a queue that
	// nobody sees.
	keeps := p.landlock >= landlockLeast
	if !p.templated() {
		p.keeps = keeps
		return
	}
	if fd, err := unix.FcntlInt(uintptr(t.file), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		p.template, p.made, p.keeps = fd, b.made, keeps
	}
}

// get returns the template with that sum, made or not, or nil if no more may be made.
func (t *templates) get(sum [sha256.Size]byte) *template {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made[sum] == nil && !t.none && len(t.made) < maxTemplates {
		t.made[sum] = &template{file: -1}
	}
	if t.none {
		return nil
	}
	return t.made[sum]
}

func (t *templates) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.none = true
}

// close closes the templates. No box may be opening meanwhile.
func (t *templates) close() {
	for _, m := range t.made {
		if m.file >= 0 {
			unix.Close(m.file)
		}
	}
}

// addTemplate adds the calls by which an init makes the root of p and hands it over. b.made
// then says what the root contains, except for mount points that belong in another mount.
func (p *plan) addTemplate(b *builder) {
	p.begin(b)
	b.Step("make the template")
	fs, tree := b.tmpfs([2]string{"mode", "755"}, [2]string{"size", "1m"}, [2]string{"nr_inodes", "4096"})
	b.Call(unix.SYS_FCHDIR, tree)
	for i, m := range p.mounts {
		if !m.layer && !beneathAny(p.mounts[:i], m.target) {
			b.target(m.target, m.dir)
		}
	}
	if p.overlaid() {
		b.dir(WorkspaceDir)
	}
	p.places(b)
	b.Call(unix.SYS_CHDIR, "/")
	// The file system itself is closed, not a mount of it: a mount could be made writable
	// again by whoever takes over an init.
	b.Step("close the template")
	b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_FLAG, "ro", 0, 0)
	b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_CMD_RECONFIGURE, 0, 0, 0)
	b.attr(tree, 0, mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY, propagation: unix.MS_PRIVATE})
	b.Step(stepTemplate)
	b.clone(tree)
	b.Step("hand over the template")
	b.handOver(boxinit.SocketReply(), tree)
}

// errNoTemplates means that the kernel is older than Linux 6.15.
var errNoTemplates = errors.New("this kernel cannot clone a detached mount")

// makeTemplate lets an init make a template, and waits for it.
func (s *Supervisor) makeTemplate(script *boxinit.Script) (_ int, err error) {
	uid := templateUID
	if !s.root {
		uid = unix.Geteuid()
	}
	process, conn, err := s.spawner.start(&cgroup.Group{}, uid)
	if err != nil {
		return -1, err
	}
	defer func() {
		conn.Close()
		_ = process.Kill()
		_, _ = process.Wait()
	}()
	if err := sendScript(conn, script, nil, s.patience.start); err != nil {
		return -1, err
	}
	_ = conn.Expect(time.Now().Add(s.patience.start))
	text, files, err := conn.Receive()
	if err != nil {
		return -1, fmt.Errorf("make a template: %w", err)
	}
	reply, err := boxinit.ParseReply(text)
	switch {
	case err == nil && reply.Op == boxinit.OpSocket && len(files) == 1:
		return files[0], nil
	case err == nil && reply.Op == boxinit.OpFailed && script.Name(reply.Step) == stepTemplate && errors.Is(reply.Errno, unix.EINVAL):
		err = errNoTemplates
	case err == nil && reply.Op == boxinit.OpFailed:
		err = fmt.Errorf("%s: %w", script.Name(reply.Step), reply.Errno)
	case err == nil:
		err = errors.New("its init reported something else")
	}
	boxinit.CloseAll(files)
	return -1, fmt.Errorf("make a template: %w", err)
}

// tryTemplate tries the system calls that a template needs.
func tryTemplate() error {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("fsconfig: %w", err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	defer unix.Close(tree)
	clone, err := unix.OpenTree(tree, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	return unix.Close(clone)
}
