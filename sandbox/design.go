package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/limit"
	"golang.org/x/sys/unix"
)

// nested reports whether each command gets a pid namespace of its own. It does if the host
// has no cgroups with which a command can be killed, or no Landlock that separates the
// commands of a box.
func (s *Supervisor) nested() bool { return s.groups.Dir() == "" || s.host.landlock < landlockLeast }

func signalsApart(nested bool, v landlock) bool { return nested || v >= landlockNewest }

// plan returns the plan of the box of a grant in a workspace. The caller must close the
// files that passed returns.
func (s *Supervisor) plan(g policies.Grant, uid int, image *images.Tree, w *Workspace) (*plan, error) {
	l := g.Limits().BoxLimits
	p := &plan{
		links: map[string]string{}, files: boxFiles(shellOf(image)),
		template: -1, tree: -1, area: -1, filter: s.filters.plain, nested: s.nested(),
		limits: l, network: g.Network(), hostFacts: s.host,
	}
	if g.NestsNamespaces() {
		p.filter, p.nests = s.filters.nesting, l.Pids
	}
	p.downloads = g.Downloads()
	if g.Network() != policies.NetworkNone {
		p.files["/etc/resolv.conf"] = resolvConf
	}
	if s.groups.Version(policies.LimitPids) == 0 {
		p.procs = uint64(cgroup.Processes(l.Pids))
	}
	for _, d := range devices {
		p.mounts = append(p.mounts, mount{source: d, target: d, devices: true, file: -1})
	}
	maps.Copy(p.links, map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
		"/dev/stderr": "/proc/self/fd/2", "/dev/ptmx": "pts/ptmx", "/etc/mtab": "/proc/self/mounts",
		"/etc/hostname": "/proc/sys/kernel/hostname", "/var/tmp": "../tmp",
	})
	if g.System() {
		addSystem(p)
	}
	if err := s.addGranted(p, g, uid, image, w); err != nil {
		boxinit.CloseAll(p.passed())
		return nil, err
	}
	return p, nil
}

// addGranted adds the trees that a grant and the operator name, in the order in which
// they are attached.
func (s *Supervisor) addGranted(p *plan, g policies.Grant, uid int, image *images.Tree, w *Workspace) error {
	if image != nil {
		if err := s.addMount(p, mount{source: image.Root, target: "/", root: true, file: -1}, uid); err != nil {
			return err
		}
	}
	for _, m := range g.Mounts() {
		// Files that a launcher has fetched belong to the user of the box, even if they are
		// read-only.
		of := g.OfUpstream()
		own := m.Source == of.Cache
		laid := mount{source: m.Source, target: m.Target, writable: m.Writable, mapped: own, file: -1}
		if own && of.Layer {
			if err := checkScratch(); err != nil {
				return err
			}
			laid.writable, laid.scratch = false, m.Writable
		}
		err := s.addMount(p, laid, uid)
		if errors.Is(err, fs.ErrNotExist) {
			err = &limit.Refusal{Message: fmt.Sprintf("profile %q mounts %s, which this host does not have; correct the policy", g.Profile(), m.Source), Err: err}
		}
		if err != nil {
			return err
		}
	}
	if err := s.addShared(p, g, uid); err != nil {
		return err
	}
	if access := g.Workspace(); access != policies.AccessNone && access != policies.AccessOverlay {
		m := mount{source: w.dir, target: WorkspaceDir, writable: access == policies.AccessWrite, file: -1}
		if err := s.addMount(p, m, uid); err != nil {
			return err
		}
	}
	if n := len(p.passed()); n > boxinit.MaxFiles {
		return &limit.Refusal{Message: fmt.Sprintf("profile %q mounts %d paths, at most %d fit", g.Profile(), n, boxinit.MaxFiles)}
	}
	return nil
}

// addMount adds a tree that the policy or the operator named. If the supervisor is root,
// addMount clones the tree here, on the host's side, where an owner can be mapped and every
// path can be reached. An ordinary user has no such right; then the init itself clones the
// tree.
func (s *Supervisor) addMount(p *plan, m mount, uid int) error {
	info, err := os.Stat(m.source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.source, err)
	}
	m.dir = info.IsDir()
	if s.root {
		attr := mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE}
		if !m.writable {
			attr.set |= unix.MOUNT_ATTR_RDONLY
		}
		var ns *os.File
		if m.writable || m.mapped || m.target == WorkspaceDir {
			if ns, err = s.idmap(m.source, uid); err != nil {
				return err
			}
		}
		m.file, err = openTree(unix.AT_FDCWD, m.source, attr, ns)
		if err != nil && ns != nil {
			return &limit.Refusal{Message: fmt.Sprintf(
				"the file system of %s cannot map its owner to a box's user; put the workspace on ext4, xfs, btrfs or tmpfs, or run belljar as the workspace's owner", m.source), Err: err}
		}
		if err != nil {
			return fmt.Errorf("clone mount %s: %w", m.source, err)
		}
	}
	p.mounts = append(p.mounts, m)
	return nil
}

// idmapKey names a mapping of a directory's owner to a box's user.
type idmapKey struct {
	owner, group uint32
	uid          int
}

// idmap returns a user namespace in which the owner of path is the box's user. A mount with
// that mapping lets the box work on the owner's files, and the files that the box makes
// belong to the owner (mount_setattr(2), "ID-mapped mounts").
func (s *Supervisor) idmap(path string, uid int) (*os.File, error) {
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return nil, fmt.Errorf("find owner of %s: %w", path, err)
	}
	key := idmapKey{info.Uid, info.Gid, uid}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.idmaps[key]; f != nil {
		return f, nil
	}
	p, control, err := hostexec.Helper(boxinit.MapName, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: int(key.owner), HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: int(key.group), HostID: uid, Size: 1}},
	})
	if err != nil {
		return nil, fmt.Errorf("map the owner of %s: %w", path, err)
	}
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.Pid), "ns/user"))
	control.Close() // the helper ends; the open file keeps its namespace
	if _, waitErr := p.Wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return nil, fmt.Errorf("map the owner of %s: %w", path, err)
	}
	s.idmaps[key] = f
	return f, nil
}

// addSystem adds the host's programs, and the files that these programs need.
func addSystem(p *plan) {
	add := func(path string) {
		info, err := os.Lstat(path)
		if err != nil {
			return // this distribution does not have it
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if target, err := os.Readlink(path); err == nil {
				p.links[path] = target
			}
			return
		}
		p.mounts = append(p.mounts, mount{source: path, target: path, dir: info.IsDir(), file: -1})
	}
	for _, path := range systemTrees {
		add(path)
	}
	for _, pattern := range systemFiles {
		names, err := filepath.Glob(pattern)
		if err != nil {
			continue // cannot fail: the patterns are constants
		}
		for _, name := range names {
			add(name)
		}
	}
}

// hostName is the host name of every box. It does not reveal how many boxes there are, and
// all boxes can have the same /etc/hosts.
const hostName = "belljar"

// boxFiles returns the files of the box's own /etc.
func boxFiles(shell string) map[string]string {
	return map[string]string{
		"/etc/passwd":        fmt.Sprintf("%s:x:%d:%d::%s:%s\nnobody:x:65534:65534::/:/bin/false\n", boxUser, boxUID, boxGID, boxHome, shell),
		"/etc/group":         fmt.Sprintf("%s:x:%d:\nnogroup:x:65534:\n", boxUser, boxGID),
		"/etc/hosts":         fmt.Sprintf("127.0.0.1 localhost %s\n::1 localhost\n", hostName),
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		cwdScript:            cwdText,
	}
}

// addShared adds the directories that every box with a workspace sees, read-only.
// Their owner's files appear as the box user's own, so that the box can read
// files that only the owner may read. If the file system cannot map users, the
// box reads only what everybody may read. A box without a workspace, for example
// that of a browser, does not serve an agent and gets none of them.
func (s *Supervisor) addShared(p *plan, g policies.Grant, uid int) error {
	if g.Workspace() == policies.AccessNone {
		return nil
	}
	for _, m := range s.cfg.Shared {
		if slices.ContainsFunc(p.mounts, func(o mount) bool { return o.target == m.Target }) {
			continue // the profile mounts something else there
		}
		err := s.addMount(p, mount{source: m.Source, target: m.Target, file: -1, mapped: true}, uid)
		if _, ok := errors.AsType[*limit.Refusal](err); ok {
			err = s.addMount(p, mount{source: m.Source, target: m.Target, file: -1}, uid)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("share %s: %w", m.Target, err)
		}
	}
	return nil
}
