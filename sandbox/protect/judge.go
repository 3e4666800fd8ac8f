package protect

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/rawsys"
)

// again looks and reverts, and remembers the reverted changes for all commands that run.
// p.mu is held.
func (p *Protector) again(last, short bool) error {
	told, err := p.judge(last, short)
	p.reverted += len(told)
	p.news = append(p.news, told...)
	p.news = p.news[max(0, len(p.news)-maxNews):]
	if p.report != nil {
		for _, r := range told {
			p.report(r)
		}
	}
	return err
}

// judge looks and reverts. The last look is the one after which no command runs, and a
// short one leaves out the directories at the top. p.mu is held.
func (p *Protector) judge(last, short bool) ([]Reverted, error) {
	if p.unchanged() {
		return nil, nil
	}
	l := p.look(false)
	l.last, l.short = last, short
	l.run()
	if len(l.errs) > 0 {
		return l.told, fmt.Errorf("%w: %w", errUnprotected, errors.Join(l.errs...))
	}
	return l.told, nil
}

// adopt is take, unless another server runs a command in the same workspace. The
// caller holds p.mu, and no command of this server runs.
func (p *Protector) adopt() error {
	if !p.alone() || p.unchanged() {
		return nil
	}
	if others, err := p.servers.others(); err != nil || others.alive {
		return err
	}
	return p.take(true, false)
}

// take adopts the present state. p.mu is held, and no command runs here.
func (p *Protector) take(alone, first bool) (err error) {
	l := p.look(true)
	l.first, l.keep = first, alone
	others, err := p.servers.others()
	if err != nil {
		return fmt.Errorf("%w: look for what other servers left: %w", errUnprotected, err)
	}
	l.doubt, l.deepDoubt, l.made = others.last, others.first, others.made
	l.run()
	switch {
	case len(l.suspects) > 0 && alone:
		return fmt.Errorf("%w: a server was killed while a command ran, and what that may have made would run when a person uses the workspace: %s; read or remove it, and then remove %s", errUnprotected, strings.Join(l.suspects, ", "), strings.Join(others.marks, ", "))
	case len(l.suspects) > 0:
		return fmt.Errorf("%w: another server runs a command in the workspace, and what that may have made would run when a person uses the workspace: %s; wait until it has ended, or read or remove that", errUnprotected, strings.Join(l.suspects, ", "))
	case len(l.errs) > 0:
		return fmt.Errorf("%w: %w", errUnprotected, errors.Join(l.errs...))
	}
	if alone && p.servers.inherit(others) {
		p.begun++
		p.unseen = earlier(p.unseen, others.first)
	}
	if err := p.save(); err != nil {
		return fmt.Errorf("%w: store what is known of it: %w", errUnprotected, err)
	}
	return nil
}

// unchanged reports whether everything that the last look looked at is as it was. For a
// directory, its time shows that (it cannot be set: ctime, inode(7)). For a file that a box
// may write, only its text does: a write through a shared mapping does not show in its
// times (mmap(2), "Timestamps changes for file-backed mappings").
func (p *Protector) unchanged() bool {
	if p.seen == nil || !p.times {
		return false
	}
	for i := range p.seen {
		if !p.same(&p.seen[i]) {
			return false
		}
	}
	return true
}

func (w *workdir) same(m *mark) bool {
	if m.text {
		text, err := readAt(w.root, m.path, maxConfigText)
		return err == nil && maphash.Bytes(w.seed, text) == m.sum
	}
	var st unix.Stat_t
	var err error
	switch {
	case m.path == "" && w.near:
		err = rawsys.Fstat(int(w.root.Fd()), unsafe.Pointer(&st))
	case m.path == "":
		err = unix.Fstat(int(w.root.Fd()), &st)
	case !strings.Contains(m.path, "/"):
		err = unix.Fstatat(int(w.root.Fd()), m.path, &st, unix.AT_SYMLINK_NOFOLLOW)
	default:
		var fd int
		if fd, err = openBeneath(int(w.root.Fd()), m.path, unix.O_PATH, 0); err == nil {
			err = unix.Fstat(fd, &st)
			unix.Close(fd)
		}
	}
	return err == nil && identOf(&st) == m.id && st.Ctim == m.time
}

// alone reports whether no other server runs a command in this workspace, or has still to
// walk through it after one. Servers agree on this by flock(2) on the directory, which
// leaves nothing behind. A box may take that lock as well: then what a person changes
// meanwhile is not adopted, and the files next to the record say which servers run
// commands.
func (w *workdir) alone() bool { return w.flock(unix.LOCK_EX) == nil }

// share shows other servers that commands run here.
func (w *workdir) share() { _ = w.flock(unix.LOCK_SH) }

// release is called when no command runs here. It releases the lock on the workspace, or
// shares the lock if a walk has still to be made.
func (p *Protector) release() {
	if !p.unseen.IsZero() {
		p.share()
		return
	}
	_ = p.flock(unix.LOCK_UN)
}

func (w *workdir) flock(how int) error {
	if w.near {
		return rawsys.Flock(int(w.root.Fd()), how)
	}
	return unix.Flock(int(w.root.Fd()), how|unix.LOCK_NB)
}
