package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filesystem returns the probes for the ways to files that the profile does not show, and
// to files that others run or read later.
func filesystem() []Probe {
	return []Probe{
		{ID: "F01", Name: "read a file beside the workspace", try: func(f *Facts) (string, error) {
			return reads(f.Host.File, f.Host.Token)
		}},
		{ID: "F02", Name: "read the machine's passwords", Root: true, where: withoutImage, try: readsAny("/etc/shadow", "/etc/gshadow", "/etc/sudoers")},
		{ID: "F03", Name: "add a file to the machine's programs or configuration", Root: true, try: anyOf(
			unnamedIn("/usr"), unnamedIn("/etc"), unnamedIn("/usr/bin"),
		)},
		{ID: "F04", Name: "write, read and remove in the workspace", Works: true, where: canWrite, try: inWorkspace},
		{ID: "F05", Name: "read through a symbolic link out of the workspace", try: inScratch(func(f *Facts, dir string) (string, error) {
			link := filepath.Join(dir, "link")
			if err := os.Symlink(f.Host.File, link); err != nil {
				return "", err
			}
			return reads(link, f.Host.Token)
		})},
		{ID: "F06", Name: "take a hard link to a file of the machine", try: inScratch(func(f *Facts, dir string) (string, error) {
			link := filepath.Join(dir, "link")
			return link, os.Link(f.Host.File, link)
		})},
		{ID: "F07", Name: "plant a git hook", where: inGit, try: func(*Facts) (string, error) {
			return plants(".git/hooks/belljar-probe")
		}},
		{ID: "F08", Name: "move .git away, to plant another", where: inGit, try: func(*Facts) (string, error) {
			return moves(".git", ".belljar-probe-git")
		}},
		{ID: "F09", Name: "append to the repository's configuration", where: inGit, try: opens(unix.O_WRONLY|unix.O_APPEND, ".git/config")},
		{ID: "F10", Name: "read a file of the machine by way of /proc", try: throughProc},
		{ID: "F11", Name: "open a file by its handle, past all mounts", Root: true, try: byHandle},
		{ID: "F12", Name: "mount a file system", Root: true, try: inScratch(mounts)},
		{ID: "F13", Name: "make a mount without a place", Root: true, try: anyOf(
			func(*Facts) (string, error) { return opensFD(unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)) },
			func(*Facts) (string, error) {
				return opensFD(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
			},
			func(*Facts) (string, error) { return opensFD(unix.Fspick(unix.AT_FDCWD, "/", 0)) },
		)},
		{ID: "F14", Name: "change the root directory", Root: true, try: func(*Facts) (string, error) {
			return "chroot", unix.Chroot(os.TempDir())
		}},
		{ID: "F15", Name: "make a device in the workspace", Root: true, try: inScratch(func(_ *Facts, dir string) (string, error) {
			return "mknod", errors.Join(
				unix.Mknod(filepath.Join(dir, "disk"), unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))),
				unix.Mknod(filepath.Join(dir, "memory"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))),
			)
		})},
		{ID: "F16", Name: "make a program set-uid", try: setUID(func(path string) error { return unix.Chmod(path, 0o4755) })},
		{ID: "F17", Name: "uncover what a mount hides", Root: true, try: inScratch(func(_ *Facts, dir string) (string, error) {
			// dir is not a mount. A process that may unmount gets the error about that, any
			// other process gets a refusal (can_umount in fs/namespace.c).
			err := unix.Unmount(dir, unix.MNT_DETACH)
			if refusedError(err) {
				return "", err
			}
			return fmt.Sprintf("umount2 answers %v", err), nil
		})},
		{ID: "F18", Name: "find the workspace as it was, with nothing added", Works: true, try: sameListing},
		{ID: "F19", Name: "make a program set-uid by its descriptor", try: setUID(func(path string) error {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Fchmod(fd, 0o4755)
		})},
		{ID: "F20", Name: "make a program set-uid by fchmodat or fchmodat2", try: setUID(func(path string) error {
			p, err := unix.BytePtrFromString(path)
			if err != nil {
				return err
			}
			const fchmodat2 = 452 // since Linux 6.6; x/sys falls back to the older call
			at := unix.AT_FDCWD
			_, _, errno := unix.Syscall6(fchmodat2, uintptr(at), uintptr(unsafe.Pointer(p)), 0o4755, 0, 0, 0)
			if errno == 0 {
				return nil
			}
			return unix.Fchmodat(unix.AT_FDCWD, path, 0o4755, 0)
		})},
		{ID: "F21", Name: "bear a file set-uid", try: anyOf(
			bornSetUID("open", func(path string) error {
				fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o4755)
				unix.Close(fd)
				return err
			}),
			bornSetUID("mknod", func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o4755, 0) }),
			bornSetUID("openat2", func(path string) error {
				fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, Mode: 0o4755})
				unix.Close(fd)
				return err
			}),
		)},
		{ID: "F22", Name: "make a directory set-gid, for all that is made in it", try: inScratch(func(_ *Facts, dir string) (string, error) {
			if err := unix.Chmod(dir, 0o2755); err != nil {
				return "", err
			}
			return hasMode(dir, unix.S_ISGID)
		})},
		{ID: "F23", Name: "give a program a capability", Root: true, try: inScratch(func(_ *Facts, dir string) (string, error) {
			file := filepath.Join(dir, "program")
			if err := newFile(file, "#!/bin/true\n"); err != nil {
				return "", err
			}
			return "setxattr security.capability", unix.Setxattr(file, "security.capability", capability(), 0)
		})},
		{ID: "F24", Name: "set attributes that only root may trust", Root: true, try: inScratch(func(_ *Facts, dir string) (string, error) {
			return "setxattr trusted.belljar", unix.Setxattr(dir, "trusted.belljar", []byte("x"), 0)
		})},
		{ID: "F25", Name: "exchange .git for a directory of its own", where: inGit, try: func(*Facts) (string, error) {
			dir, remove, err := scratch()
			if err != nil {
				return "", err
			}
			defer remove()
			swap := func() error { return unix.Renameat2(unix.AT_FDCWD, ".git", unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE) }
			if err := swap(); err != nil {
				return "", err
			}
			return "renameat2 RENAME_EXCHANGE", swap()
		}},
		{ID: "F26", Name: "move the hooks away, to plant others", where: inGit, try: func(*Facts) (string, error) {
			return moves(".git/hooks", ".git/belljar-probe")
		}},
		{ID: "F27", Name: "replace the repository's configuration by another file", where: inGit, try: func(*Facts) (string, error) {
			return moves(".git/config", ".git/belljar-probe")
		}},
		{ID: "F28", Name: "change what an editor or agent runs by itself", where: inGit, try: anyOf(
			opens(unix.O_WRONLY|unix.O_APPEND, ".vscode/tasks.json"), opens(unix.O_WRONLY|unix.O_APPEND, ".claude/settings.json"),
			opens(unix.O_WRONLY|unix.O_APPEND, ".mcp.json"),
		)},
		{ID: "F29", Name: "write to a program that the machine runs as well", Root: true, try: opens(unix.O_WRONLY|unix.O_APPEND, "/usr/bin/env", "/usr/bin/id", "/usr/bin/ls")},
		{ID: "F30", Name: "leave the root directory by its parents", try: func(f *Facts) (string, error) {
			fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			return reads(fmt.Sprintf("/proc/self/fd/%d/../../../..%s", fd, f.Host.File), f.Host.Token)
		}},
		{ID: "F31", Name: "change the root mount", Root: true, try: inScratch(func(_ *Facts, dir string) (string, error) {
			// dir is not a mount. The kernel checks the caller's rights first, so only a
			// process that may change the root gets the error about that.
			err := unix.PivotRoot(dir, dir)
			if refusedError(err) {
				return "", err
			}
			return fmt.Sprintf("pivot_root answers %v", err), nil
		})},
		{ID: "F32", Name: "change the attributes of a mount, or move one", Root: true, try: anyOf(
			reaches("mount_setattr", unix.SYS_MOUNT_SETATTR, badFD, slash(), 0, badPointer, 32),
			reaches("move_mount", unix.SYS_MOVE_MOUNT, badFD, slash(), badFD, slash(), badFlags),
		)},
		{ID: "F33", Name: "watch all files of a mount", where: known(unix.SYS_FANOTIFY_INIT, badFlags), try: func(*Facts) (string, error) {
			// fanotify_init(2): it needs no privilege if events carry only file
			// handles.
			return opensFD(unix.FanotifyInit(unix.FAN_CLOEXEC|unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID, unix.O_RDONLY))
		}},
		{ID: "F34", Name: "watch a file of the machine", try: func(f *Facts) (string, error) {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			_, err = unix.InotifyAddWatch(fd, f.Host.File, unix.IN_ALL_EVENTS)
			return "inotify", err
		}},
		{ID: "F35", Name: "make a file that nobody can change", Root: true, try: inScratch(immutable)},
		{ID: "F36", Name: "give a file to root", Root: true, try: inScratch(func(_ *Facts, dir string) (string, error) {
			return "chown", os.Chown(dir, 0, 0)
		})},
		{ID: "F37", Name: "open a pipe of the machine", try: func(f *Facts) (string, error) {
			return f.Host.Fifo, open(f.Host.Fifo, unix.O_RDWR)
		}},
		{ID: "F38", Name: "block a process that opens a program of the machine", Root: true, try: func(*Facts) (string, error) {
			// F_SETLEASE, fcntl(2): a process that opens the file for writing waits for the
			// prober.
			fd, err := unix.Open("/usr/bin/env", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
			return "F_SETLEASE", err
		}},
		{ID: "F39", Name: "stop all writing to a file system", Root: true, try: func(*Facts) (string, error) {
			// /proc cannot be frozen. A process that may freeze gets the error about that,
			// any other process gets a refusal.
			fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			const fiFreeze = 0xc0045877 // linux/fs.h, FIFREEZE
			return reaches("ioctl FIFREEZE", unix.SYS_IOCTL, uintptr(fd), fiFreeze, 0)(nil)
		}},
		{ID: "F40", Name: "find the home directories of the machine", try: func(f *Facts) (string, error) {
			// The directory around the victim's own directory stands for all of them.
			dir := filepath.Dir(f.Host.Dir)
			entries, err := os.ReadDir(dir)
			if err != nil {
				return "", err
			}
			if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == filepath.Base(f.Host.Dir) }) {
				return "", fmt.Errorf("%s: other names", dir)
			}
			return dir, nil
		}},
	}
}

// root is "/" in the form in which the kernel takes a path.
var root = [2]byte{'/', 0}

func slash() uintptr { return uintptr(unsafe.Pointer(&root)) }

// refusedError reports whether an error is a refusal; see refused.
func refusedError(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && refused(errno)
}

// opensFD closes the descriptor that a call has opened.
func opensFD(fd int, err error) (string, error) {
	if err != nil {
		return "", err
	}
	unix.Close(fd)
	return "a descriptor", nil
}

// unnamedIn makes a file without a name in a directory, which leaves nothing
// there.
func unnamedIn(dir string) act {
	return func(*Facts) (string, error) {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
			// Some file systems have no files without a name; there the name is removed
			// immediately.
			path := filepath.Join(dir, ".belljar-probe")
			if fd, err = unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
				err = unix.Unlink(path)
			}
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", dir, err)
		}
		unix.Close(fd)
		return dir, nil
	}
}

func inWorkspace(*Facts) (string, error) {
	const name, text = ".belljar-probe-file", "text"
	if err := newFile(name, text); err != nil {
		return "", err
	}
	_, err := reads(name, text)
	return "wrote and read", errors.Join(err, os.Remove(name))
}

// plants makes a file at a place from which a program would run it, and removes it again.
func plants(path string) (string, error) {
	if err := newFile(path, "#!/bin/false\n"); err != nil {
		return "", err
	}
	return path, os.Remove(path)
}

// moves renames a file, and renames it back.
func moves(from, to string) (string, error) {
	if err := os.Rename(from, to); err != nil {
		return "", err
	}
	return from, os.Rename(to, from)
}

func throughProc(f *Facts) (string, error) {
	var faults []error
	dirs := []string{"/proc/self/root", "/proc/self/cwd/../../../../../..", inProc(f.Init, "root"), inProc(f.Init, "cwd"), inProc(f.Host.Pid, "root")}
	for _, pid := range pids() {
		dirs = append(dirs, inProc(pid, "root"), inProc(pid, "cwd/../../../.."))
	}
	for _, dir := range dirs {
		what, err := reads(dir+f.Host.File, f.Host.Token)
		if err == nil {
			return what, nil
		}
		faults = append(faults, err)
	}
	return "", errors.Join(faults...)
}

func byHandle(f *Facts) (string, error) {
	if len(f.Host.Handle) == 0 {
		return "", errors.New("the file has no handle")
	}
	// Any directory of the file system will do.
	for _, dir := range []string{filepath.Dir(f.Host.Dir), ".", os.TempDir(), "/usr", "/"} {
		at, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		fd, err := unix.OpenByHandleAt(at, f.Host.handle(), unix.O_RDONLY|unix.O_CLOEXEC)
		unix.Close(at)
		if err == nil {
			unix.Close(fd)
			return dir, nil
		}
		if errors.Is(err, unix.ESTALE) {
			continue // the call was allowed, but the file is in another file system
		}
		return "", fmt.Errorf("open_by_handle_at: %w", err)
	}
	return "", errors.New("open_by_handle_at: no file system has it")
}

// mounts tries each kind of mount, if possible in a mount namespace of its own, which ends
// with the prober.
func mounts(_ *Facts, dir string) (string, error) {
	if unix.Unshare(unix.CLONE_NEWNS) == nil {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return "", err
		}
	}
	tmpfs := unix.Mount("belljar-probe", dir, "tmpfs", 0, "size=4k")
	bind := unix.Mount("/proc", dir, "", unix.MS_BIND, "")
	if tmpfs != nil && bind != nil {
		return "", errors.Join(tmpfs, bind)
	}
	for unix.Unmount(dir, unix.MNT_DETACH) == nil { // a directory that is a mount cannot be removed
	}
	return "mount", nil
}

// setUID is an act that gives a file of the prober the set-uid bit by chmod.
func setUID(chmod func(path string) error) act {
	return inScratch(func(_ *Facts, dir string) (string, error) {
		file := filepath.Join(dir, "program")
		if err := newFile(file, "#!/bin/true\n"); err != nil {
			return "", err
		}
		if err := chmod(file); err != nil {
			return "", err
		}
		return hasMode(file, unix.S_ISUID)
	})
}

// bornSetUID is an act that creates a file with the set-uid bit.
func bornSetUID(name string, create func(path string) error) act {
	return inScratch(func(_ *Facts, dir string) (string, error) {
		unix.Umask(0)
		file := filepath.Join(dir, "program")
		if err := create(file); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return hasMode(file, unix.S_ISUID)
	})
}

func hasMode(path string, bit uint32) (string, error) {
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return "", err
	}
	if info.Mode&bit == 0 {
		return "", fmt.Errorf("mode is %o", info.Mode)
	}
	return fmt.Sprintf("mode %o", info.Mode), nil
}

// sameListing compares the workspace with the names that it had on the host before.
func sameListing(f *Facts) (string, error) {
	entries, err := os.ReadDir(".")
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, f.Listing) {
		return "", fmt.Errorf("it contains %s, not %s", strings.Join(names, " "), strings.Join(f.Listing, " "))
	}
	return fmt.Sprintf("%d names", len(names)), nil
}

// immutable sets the flag that stops even the owner from removing a file.
func immutable(_ *Facts, dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	const flag = 0x10 // ioctl_iflags(2), FS_IMMUTABLE_FL
	old, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		// The kernel has answered, but the file system has no flags, which shows nothing
		// about the right to set one.
		return "", err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, old|flag); err != nil {
		return "", err
	}
	return "FS_IMMUTABLE_FL", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, old)
}
