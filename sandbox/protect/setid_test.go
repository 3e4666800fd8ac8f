package protect

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

// powerless runs f without the capabilities of root, on a thread of its own.
func powerless(t *testing.T, f func()) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var had [2]unix.CapUserData
		if err := unix.Capget(&header, &had[0]); err != nil {
			done <- err
			return
		}
		none := had
		none[0].Effective, none[1].Effective = 0, 0
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		f()
		done <- unix.Capset(&header, &had[0])
	}()
	must(t, <-done)
}

// A file that a command could have changed loses its capabilities, too, if belljar is an
// ordinary user, who may not remove their attribute.
func TestCapabilitiesAreTakenByAnOrdinaryUser(t *testing.T) {
	p, dir := guarded(t, nil)
	name := filepath.Join(dir, "tool")
	put(t, name, "tool")
	must(t, os.Chmod(name, 0o755|os.ModeSetuid))
	l := p.look(false)
	// Version 2, effective, with CAP_NET_RAW (linux/capability.h, struct vfs_cap_data).
	capability := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	testenv.Need(t, testenv.Root)
	must(t, unix.Setxattr(name, "security.capability", capability, 0))
	st, err := statAt(p.root, "tool")
	must(t, err)
	if !givesRights(p.root, "tool", st) {
		t.Fatal("the file gives no rights away")
	}
	powerless(t, func() { l.takeRights(p.root, "tool", st) })
	st, err = statAt(p.root, "tool")
	must(t, err)
	if givesRights(p.root, "tool", st) || len(l.errs) > 0 || len(l.told) != 1 {
		t.Errorf("the file still gives rights away: %o, errors %v, told %v", st.Mode, l.errs, l.told)
	}
}

// A directory that is opened to its owner keeps what others may do.
func TestADirectoryIsOpenedToItsOwnerAlone(t *testing.T) {
	p, dir := guarded(t, nil)
	name := filepath.Join(dir, "closed")
	must(t, os.Mkdir(name, 0o755))
	must(t, os.Chmod(name, 0o351|os.ModeSticky))
	powerless(t, func() {
		f, err := openToList(p.root, "closed")
		if err != nil {
			t.Error(err)
			return
		}
		f.Close()
	})
	info, err := os.Stat(name)
	must(t, err)
	if want := 0o751 | os.ModeSticky | os.ModeDir; info.Mode() != want {
		t.Errorf("the mode is %v, want %v", info.Mode(), want)
	}
}
