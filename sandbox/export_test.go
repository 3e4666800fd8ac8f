package sandbox

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/initconn"
)

// WaitWarm reports whether the box has a warm shell or gets one soon, and waits until the
// shell sleeps: a shell that is still starting would use a processor during the
// measurement.
func (b *Box) WaitWarm() bool {
	if b.sup.restAfter < time.Millisecond {
		return true // everything is tested without a warm shell
	}
	return testenv.Until(5*time.Second, func() bool {
		b.table.mu.Lock()
		w := b.table.warm
		ready := w != nil && w.ready
		b.table.mu.Unlock()
		return ready && asleep(w.job.leaf)
	})
}

// WarmPid returns the process id of the warm shell in the box, or 0 if none waits.
func (b *Box) WarmPid() int {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if b.table.warm == nil || !b.table.warm.ready {
		return 0
	}
	return int(b.table.warm.job.pid.Load())
}

// Landlock returns the version of the kernel's Landlock interface; 0 if the kernel has no
// Landlock.
func Landlock() int { return int(probeLandlock()) }

// SetLandlock makes later boxes use no newer version of Landlock's interface, as on an
// older kernel; 0 means no Landlock.
func (s *Supervisor) SetLandlock(version int) {
	s.mustPrepare()
	s.host.landlock = min(s.host.landlock, landlock(version))
}

// mustPrepare makes the parts of a supervisor that a test then changes.
func (s *Supervisor) mustPrepare() {
	if err := s.Prepare(); err != nil {
		panic(err)
	}
}

// asleep reports whether all processes in a leaf sleep.
func asleep(l *cgroup.Leaf) bool {
	if l == nil {
		return true
	}
	text, err := os.ReadFile(l.Path() + "/cgroup.procs")
	if err != nil {
		return false
	}
	for pid := range strings.FieldsSeq(string(text)) {
		n, _ := strconv.Atoi(pid)
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(n) + "/stat")
		if !strings.Contains(string(stat), ") S ") {
			return false
		}
	}
	return true
}

// SetInit makes boxes start another program as their init, which finds the file at
// descriptor 4.
func (s *Supervisor) SetInit(program string, file *os.File) {
	s.mustPrepare()
	s.spawner.image.path = program
	s.spawner.image.exe.Close()
	s.spawner.image.exe = file
}

// ByPort makes boxes work without redirection, as on a kernel without nf_tables.
func (s *Supervisor) ByPort() {
	s.redirect = func(int, netip.AddrPort) error { return unix.EPROTONOSUPPORT }
}

// SetRest sets how long later boxes are idle before they rest.
func (s *Supervisor) SetRest(d time.Duration) { s.restAfter = d }

// Park parks the box once its last command has released it, and reports whether that was
// possible before the deadline.
func (b *Box) Park(most time.Duration) bool {
	return testenv.Until(most, func() bool {
		b.table.coolDown()
		return b.Parked() || b.life.park()
	})
}

// Parked reports whether the box is parked.
func (b *Box) Parked() bool {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	return b.life.parked
}

// SetPatience sets how long the supervisor waits for inits.
func (s *Supervisor) SetPatience(d time.Duration) { s.patience = patience{d, d} }

// SetRoots sets the authorities with which the doors of later boxes verify servers.
func (s *Supervisor) SetRoots(roots *x509.CertPool) { s.roots = roots }

// Listen runs the conversation of a box with an init whose messages are read from a socket.
// Meanwhile one command runs, and a goroutine waits for its beginning. Listen waits for the
// end of the conversation, and returns the replies that the command received.
func Listen(socket int, process *os.Process) []boxinit.Reply {
	s := &Supervisor{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	b := newBox(newWorkspace(s, ""), "fuzz", policies.Grant{})
	b.init.process = process
	var err error
	if b.init.conn, err = initconn.Of(socket); err != nil {
		panic(err)
	}
	j := newJob(b)
	j.wire = 1
	b.table.running[1] = j
	var waiting sync.WaitGroup
	waiting.Go(func() { // like the caller that starts a command
		for {
			select {
			case <-b.init.gone:
				return
			default:
				b.init.conn.Hear(initconn.Attend, b.init.hear, j.replies.some)
			}
		}
	})
	b.life.serve()
	waiting.Wait()
	close(j.replies)
	var heard []boxinit.Reply
	for r := range j.replies {
		heard = append(heard, r)
	}
	return heard
}

// InitPid returns the process id of the box's init on the host.
func (b *Box) InitPid() int { return b.init.process.Pid }

// Processes returns the command lines of the processes in the box, except those of a warm
// shell, and of processes without memory, which are about to end.
func (b *Box) Processes() []string {
	testenv.Until(5*time.Second, func() bool { return !b.warmingUp() })
	b.table.coolDown()
	var lines []string
	queue := cgroup.Children(b.init.process.Pid)
	for n := 0; n < len(queue); n++ {
		queue = append(queue, cgroup.Children(queue[n])...)
		if size, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", queue[n])); err != nil || strings.HasPrefix(string(size), "0 ") {
			continue
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", queue[n]))
		lines = append(lines, fmt.Sprintf("%d %s", queue[n], strings.ReplaceAll(string(text), "\x00", " ")))
	}
	return lines
}

func (b *Box) warmingUp() bool {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	return b.table.warming
}

// SetEgress changes what the box's door lets through, like Regrant does for a new policy.
func (b *Box) SetEgress(ctx context.Context, e *policies.Egress) error {
	b.life.waking.RLock()
	defer b.life.waking.RUnlock()
	return b.means.door.set(ctx, e)
}

// Spool returns the directory for output that is too large for memory.
func (s *Supervisor) Spool() string { return s.cfg.Spool }

// HasLeaves reports whether each command of the box has a cgroup of its own.
func (b *Box) HasLeaves() bool { return b.means.group.Leaves() }

// LoseListener closes the listener of the box's execs, so that nothing answers them.
func (b *Box) LoseListener() {
	b.life.kept.able = false // otherwise another init would bring another listener
	b.means.execs.close()
}

// KnownExecs ends the view of what the box executes, and returns the names that it
// remembers. can is false if no name can be remembered, because each command has mounts of
// its own.
func (b *Box) KnownExecs() (known []string, can bool) {
	v := b.means.execs
	v.closing.Store(true)
	v.ready.Close()
	<-v.done
	return slices.Collect(maps.Keys(v.files.known)), v.files.one
}

// SetBundles makes the boxes of a test look for the authorities of the host in these files.
func SetBundles(t testing.TB, names ...string) {
	before := bundles
	bundles = names
	t.Cleanup(func() { bundles = before })
}

// WithoutListeners makes the host of a test unable to show execs.
func WithoutListeners(t testing.TB) {
	before := execSupport
	execSupport = func() listens { return listens{err: unix.ENOSYS} }
	t.Cleanup(func() { execSupport = before })
}

// NoTemplates makes boxes build their roots themselves, as on kernels before Linux 6.15.
func (s *Supervisor) NoTemplates() { s.templates.stop() }

// Templates returns the number of shared roots.
func (s *Supervisor) Templates() (n int) {
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	for _, t := range s.templates.made {
		if t.file >= 0 {
			n++
		}
	}
	return n
}
