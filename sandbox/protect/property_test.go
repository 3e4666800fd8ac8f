package protect

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// lair is a box as far as a protector is concerned: a thread with mounts of its
// own, in which the pins are mounted as an init mounts them.
type lair struct {
	do   chan func()
	done chan struct{}
}

func newLair(dir string, pins []Pin) (*lair, error) {
	l := &lair{do: make(chan func()), done: make(chan struct{})}
	mounted := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: its mounts end with the thread
		mounted <- mountPins(dir, pins)
		for f := range l.do {
			f()
			l.done <- struct{}{}
		}
	}()
	return l, <-mounted
}

func (l *lair) run(f func()) {
	l.do <- f
	<-l.done
}

// siege is one random case.
type siege struct {
	r            *rand.Rand
	dir, witness string
	record       string
	p            *Protector // nil in a case without protection
	box          *lair
	homes        []string // directories in which a person has repositories, and runs git
	log          []string
}

var siegeNames = []string{"proj", "lib", "store", "a", "b", ".cache", "d/e", "proj/x/y", "a/b/c"}

func (s *siege) name() string { return siegeNames[s.r.IntN(len(siegeNames))] }
func (s *siege) home() string { return s.homes[s.r.IntN(len(s.homes))] }

func (s *siege) evil() string {
	return fmt.Sprintf("[core]\n\tfsmonitor = \"pwd >> %s; false\"\n\trepositoryformatversion = 0\n", s.witness)
}

// repository makes a repository, which is bare if dir ends in "store".
func repository(dir, config string) {
	git := dir + "/.git"
	if strings.HasSuffix(dir, "store") {
		git = dir
	}
	for _, d := range []string{"objects", "refs/heads", "hooks"} {
		_ = os.MkdirAll(git+"/"+d, 0o755)
	}
	_ = os.WriteFile(git+"/HEAD", []byte("ref: refs/heads/main\n"), 0o644)
	_ = os.WriteFile(git+"/config", []byte(config), 0o644)
}

// step does one random thing that a command may do. The box refuses some of them, so
// errors are ignored.
func (s *siege) step() {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	a, b, h := s.name(), s.name(), s.home()
	kind := s.r.IntN(18)
	s.log = append(s.log, fmt.Sprint(kind, " ", a, " ", b, " ", h))
	git := at(h) + "/.git"
	if h == "store" {
		git = at(h)
	}
	switch kind {
	case 0:
		n := 20
		if s.r.IntN(40) == 0 {
			n = 1100
		}
		for i := range n {
			_ = os.Mkdir(at(fmt.Sprintf("%s%d", filepath.Base(a), i)), 0o755)
		}
	case 1, 2:
		_ = os.MkdirAll(filepath.Dir(at(b)), 0o755)
		_ = os.Rename(at(h), at(b))
	case 3:
		_ = os.MkdirAll(filepath.Dir(at(b)), 0o755)
		_ = os.Rename(at(h), at(b))
		_ = os.Symlink(b, at(h))
	case 4:
		if f, err := os.OpenFile(git+"/config", os.O_APPEND|os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString(s.evil())
			_ = f.Close()
		}
	case 5:
		_ = os.WriteFile(git+"/new", []byte(s.evil()), 0o644)
		_ = os.Rename(git+"/new", git+"/config")
	case 6:
		_ = os.WriteFile(git+"/hooks/post-index-change", []byte("#!/bin/sh\npwd >> "+s.witness+"\n"), 0o755)
	case 7:
		repository(at(a), s.evil())
	case 8:
		_ = os.MkdirAll(at(a), 0o755)
		repository(at(b), s.evil())
		_ = os.WriteFile(at(a)+"/.git", []byte("gitdir: "+at(b)+"/.git\n"), 0o644)
	case 9:
		repository(at("d/evil"), s.evil())
		_ = os.WriteFile(git+"/commondir", []byte(at("d/evil/.git")+"\n"), 0o644)
	case 10:
		_ = os.RemoveAll(at(h))
		repository(at(h), s.evil())
	case 11:
		_ = os.RemoveAll(git)
		_ = os.Symlink(at("d/evil/.git"), git)
		repository(at("d/evil"), s.evil())
	case 12:
		_ = os.Link(git+"/config", at("second"))
		_ = os.WriteFile(at("second"), []byte(s.evil()), 0o644)
	case 13:
		_ = os.WriteFile(git+"/config.worktree", []byte(s.evil()), 0o644)
	case 14:
		_ = os.Rename(git, git+"2")
		repository(at(h), s.evil())
	case 15: // the index names a repository deep in the work tree
		deep := fmt.Sprintf("deep%d/x/y", s.r.IntN(3))
		repository(at(h)+"/"+deep, s.evil())
		c := exec.Command("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+deep)
		c.Dir, c.Env = at(h), []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GIT_CONFIG_NOSYSTEM=1"}
		_ = c.Run()
	case 16:
		_ = os.Chmod(git, 0)
	case 17:
		_ = os.RemoveAll(at(h))
		repository(at("d/evil"), s.evil())
		_ = os.Symlink("d/evil", at(h))
	}
}

// command runs a few steps, and calls lookAndWalk between some of them, as the schedule of a
// Protector does while a command runs.
func (s *siege) command(t *testing.T) {
	if s.p == nil {
		for range 1 + s.r.IntN(4) {
			s.step()
		}
		return
	}
	var w *Watch
	var err error
	if w, err = s.p.Begin(&BoxState{}, func(error) {}); err != nil {
		t.Fatalf("begin: %v\n%s", err, strings.Join(s.log, "\n"))
	}
	for i := range 1 + s.r.IntN(4) {
		if i > 0 && s.r.IntN(2) == 0 {
			s.p.lookAndWalk()
		}
		s.box.run(s.step)
	}
	if s.r.IntN(2) == 0 {
		s.p.lookAll()
		s.ask(t, "while a command runs")
		s.box.run(s.step)
	}
	if _, err := w.End(); err != nil { // a job would close the box, too
		s.log = append(s.log, "closed: "+err.Error())
		s.reopen(t, false)
	}
}

// lookAll makes a look that is not cut short, however slow the machine is.
func (p *Protector) lookAll() {
	p.mu.Lock()
	p.whole = time.Time{}
	p.mu.Unlock()
	p.lookNow()
}

// open makes the protector of a new server.
func (s *siege) open(t *testing.T) {
	t.Helper()
	dir, err := os.Open(s.dir)
	must(t, err)
	defer dir.Close()
	if s.p, err = newProtector(dir, nil, s.record); err != nil {
		t.Fatalf("a workspace that cannot be opened any more: %v\n%s", err, strings.Join(s.log, "\n"))
	}
}

// reopen makes a new box, and before it a new server if anew is set.
func (s *siege) reopen(t *testing.T, anew bool) {
	t.Helper()
	s.log = append(s.log, fmt.Sprint("reopen ", anew))
	if s.box != nil {
		close(s.box.do)
		s.box = nil
	}
	if s.p != nil && anew {
		_ = s.p.Close()
		s.p = nil
	}
	if s.p == nil {
		s.open(t)
	}
	pins, err := s.p.Pins()
	if err == nil {
		s.box, err = newLair(s.dir, pins)
	}
	if err != nil {
		t.Fatalf("a box that cannot be opened any more: %v\n%s", err, strings.Join(s.log, "\n"))
	}
}

// ask runs git in each repository, like a person who wants to see its status. It reports
// whether git ran anything that a box wrote.
func (s *siege) ask(t *testing.T, when string) bool {
	t.Helper()
	for _, h := range s.homes {
		for _, args := range [][]string{{"status"}, {"update-index", "-q", "--refresh"}} {
			c := exec.CommandContext(t.Context(), "git", args...)
			c.Dir, c.Env = filepath.Join(s.dir, h), []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GIT_CONFIG_NOSYSTEM=1"}
			_ = c.Run()
			if h == "store" {
				// If a command has removed the store, git without --git-dir would read the
				// index of the repository above as that of the store.
				c = exec.CommandContext(t.Context(), "git", "--git-dir=.", "--work-tree=.", "status")
				c.Dir, c.Env = filepath.Join(s.dir, h), []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GIT_CONFIG_NOSYSTEM=1"}
				_ = c.Run()
			}
		}
		if where, err := os.ReadFile(s.witness); err == nil {
			if s.p != nil {
				t.Errorf("%s git in %s ran what a box wrote, in %s:\n%s", when, h, where, strings.Join(s.log, "\n"))
			}
			return true
		}
	}
	return false
}

// run plays one case, and reports whether git ran anything of a box.
func (s *siege) run(t *testing.T, protected bool) bool {
	must(t, os.Mkdir(s.dir, 0o755))
	const mine = "[core]\n\trepositoryformatversion = 0\n[user]\n\tname = person\n"
	for _, h := range []string{"proj", "lib", "store"}[:1+s.r.IntN(3)] {
		repository(filepath.Join(s.dir, h), mine)
		s.homes = append(s.homes, h)
	}
	if s.r.IntN(3) == 0 {
		repository(s.dir, mine)
		s.homes = append(s.homes, ".")
	}
	for i := range 3 + s.r.IntN(3) {
		if again := s.r.IntN(3); protected && (i == 0 || again > 0) {
			s.reopen(t, again == 2)
		}
		s.command(t)
		if s.ask(t, "after a command") {
			break
		}
		if s.r.IntN(5) == 0 { // a person's new repository, while no command runs
			late := fmt.Sprintf("late%d", i)
			repository(filepath.Join(s.dir, late), mine)
			s.homes = append(s.homes, late)
		}
	}
	if s.box != nil {
		close(s.box.do)
	}
	if s.p != nil {
		_ = s.p.Close()
	}
	_, err := os.Stat(s.witness)
	return err == nil
}

// Whatever commands do, in whatever order, and whenever boxes and servers start and end,
// git never runs anything of a box in a repository that a person had before.
func TestRandomCommandsNeverReachARepository(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Git)
	cases, r := testenv.Cases(t, 20)
	seed := r.Uint64()
	top := t.TempDir()
	play := func(n uint64, protected bool) bool {
		base := filepath.Join(top, fmt.Sprintf("%d-%v", n, protected))
		must(t, os.Mkdir(base, 0o755))
		defer os.RemoveAll(base)
		s := &siege{r: rand.New(rand.NewPCG(n, 0)), dir: base + "/workspace", witness: base + "/witness", record: base + "/record"}
		return s.run(t, protected)
	}
	playAll(t, cases, seed, play)
}

// playAll plays cases with protection, in which nothing may do harm, and every eighth case
// also without it, where a third of the cases must do harm.
func playAll(t *testing.T, cases int, seed uint64, play func(n uint64, protected bool) (harm bool)) {
	t.Helper()
	controls, harmed := 0, 0
	for i := range cases {
		n := seed + uint64(i)
		if play(n, true) {
			t.Errorf("case %d: harm was done", i)
		}
		if i%8 == 0 {
			controls++
			if play(n, false) {
				harmed++
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d of %d did harm without protection", harmed, controls)
	if harmed*3 < controls {
		t.Errorf("without protection %d of %d did harm: the test proves too little", harmed, controls)
	}
}
