package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lifetime returns the probes for the ways to outlive a call or a box, or to end the box
// for later calls. The first half is done in one call. The prober looks for its effect
// after that call has ended.
func lifetime() []Probe {
	return []Probe{
		{ID: "L01", Name: "leave a daemon behind", plant: daemon("L01", "1"), look: survivor("L01")},
		{ID: "L02", Name: "leave a child that is deaf to signals and holds the output", plant: leaves("L02", "deaf"), look: survivor("L02")},
		{ID: "L03", Name: "leave a stopped child", plant: leaves("L03", "stopped"), look: survivor("L03")},
		{ID: "L04", Name: "kill everybody it may", own: true, kills: true, dies: true, plant: func(f *Facts) error {
			// If the box shares its processes with the machine, N04 reports that, and this
			// probe must not signal all of them.
			if _, err := shares(&Victim{Namespaces: map[string]string{"pid": f.Host.Namespaces["pid"]}}); err == nil && f.Everyone == -1 {
				return errors.New("the box has the machine's processes")
			}
			// An error is fine: the box may have nothing that can be signalled.
			_ = send(f.Everyone, unix.SIGKILL)
			return nil
		}, try: gone},
		{ID: "L05", Name: "kill init", own: true, kills: true, dies: true, plant: func(f *Facts) error {
			_ = send(f.Init, unix.SIGKILL)
			return nil
		}, try: gone},
		{ID: "L06", Name: "end or stop init by any other signal", own: true, kills: true, dies: true, plant: func(f *Facts) error {
			const last = 64 // signal(7), SIGRTMAX
			for sig := unix.Signal(1); sig <= last; sig++ {
				if sig != unix.SIGKILL {
					_ = send(f.Init, sig)
				}
			}
			return nil
		}, try: gone},
		{ID: "L07", Name: "outrun the kill by ever new processes", plant: func(f *Facts) error {
			for range 4 {
				if err := daemon("L07", "40")(f); err != nil {
					return err
				}
			}
			return nil
		}, look: survivor("L07")},
		{ID: "L08", Name: "outlive a call that is cut off", cut: true, plant: leaves("L08", "deaf"), look: survivor("L08")},
		{ID: "L09", Name: "outlive its box", own: true, renewed: true, plant: daemon("L09", "1"), look: survivor("L09")},
		{ID: "L10", Name: "leave shared memory to the next box", own: true, renewed: true, plant: func(f *Facts) error {
			_, err := unix.SysvShmGet(left(f), 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
			if errors.Is(err, unix.ENOSYS) { // a box whose memory is only watched has no shared memory
				return nil
			}
			return err
		}, try: func(f *Facts) (string, error) {
			id, err := unix.SysvShmGet(left(f), 0, 0)
			if err != nil {
				return "", fmt.Errorf("shmget: %w", err)
			}
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			return "a segment", err
		}},
		{ID: "L11", Name: "leave a file in /tmp to the next box", own: true, renewed: true, plant: func(f *Facts) error {
			return newFile(filepath.Join(os.TempDir(), f.Marker), "")
		}, try: func(f *Facts) (string, error) {
			return "a file", os.Remove(filepath.Join(os.TempDir(), f.Marker))
		}},
		{ID: "L12", Name: "leave a message queue to the next box", own: true, renewed: true, plant: func(f *Facts) error {
			// If the queue cannot be made, it is not found later either.
			_, _ = openMq(f.Marker, unix.O_CREAT|unix.O_EXCL)
			return nil
		}, try: func(f *Facts) (string, error) {
			if _, err := openMq(f.Marker, 0); err != nil {
				return "", err
			}
			v := Victim{Mq: f.Marker, ids: ipc{-1, -1, -1, 1}}
			v.remove()
			return "a queue", nil
		}},
	}
}

// daemon starts a process in a session of its own whose parent has ended.
func daemon(id, generations string) func(*Facts) error {
	return func(f *Facts) error {
		c := prober(partHop, f.Marker+id, generations)
		c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		return c.Run()
	}
}

// leaves starts a child that stays, and does not wait for it.
func leaves(id, how string) func(*Facts) error {
	return func(f *Facts) error {
		c := prober(partLinger, f.Marker+id, how)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return err
		}
		if how != "stopped" {
			return nil
		}
		if !soon(patience, func() bool { return state(c.Process.Pid) == "T" }) {
			return errors.New("the child does not stop")
		}
		return nil
	}
}

// survivor looks on the host, which sees the processes of all boxes, and kills what it
// finds.
func survivor(id string) act {
	return func(f *Facts) (string, error) {
		found := 0
		// A process that starts itself again and again can be missed by a single look.
		for looks := 0; looks < 10; looks++ {
			if pid, ok := findProcess(f.Marker + id); ok {
				found, looks = pid, -1
				_ = send(pid, unix.SIGKILL)
				continue
			}
			pause(50 * time.Millisecond)
		}
		if found == 0 {
			return "", errors.New("nothing is left")
		}
		return fmt.Sprintf("process %d", found), nil
	}
}

// gone reports whether the process that stands for init has ended or stopped.
func gone(f *Facts) (string, error) {
	// A process that was killed may still be about to end.
	dead := func() bool {
		switch state(f.Init) {
		case "Z", "T":
			return true
		case "":
			// The process has ended, or /proc hides it. If it exists but may not be
			// signalled, the error is another one.
			return errors.Is(send(f.Init, 0), unix.ESRCH)
		}
		return false
	}
	if !soon(time.Second, dead) {
		return "", fmt.Errorf("process %d lives", f.Init)
	}
	return "it is gone, or stopped", nil
}

// state returns the letter that /proc gives for the state of a process, or "".
func state(pid int) string {
	text, err := readSome(inProc(pid, "stat"), 4096)
	if err != nil {
		return ""
	}
	// pid (name) state ...; the name may contain anything, even ")".
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// left returns a key that only this suite uses: the one after the victim's three keys.
func left(f *Facts) int { return f.Host.Memory + 3 }
