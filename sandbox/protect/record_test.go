package protect

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// recorded returns a Protector of a server that knows what earlier servers knew.
func recorded(t *testing.T, dir, record string) (*Protector, error) {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	p, err := newProtector(f, nil, record)
	if err == nil {
		p.schedule.closed = true
	}
	return p, err
}

// runningMarks returns the files of servers that have run commands.
func runningMarks(t *testing.T, record string) []string {
	t.Helper()
	all, err := filepath.Glob(record + runningSuffix + "*")
	must(t, err)
	return all
}

// A server is killed while a command runs. The next one does not take what that command
// made for a person's work, but still recognizes a person's work.
func TestAKilledServerLeavesDoubt(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		command    func(dir string)
	}{
		{"a protected name", ".envrc", func(dir string) { put(t, dir+"/.envrc", "evil") }},
		{"one in a directory", ".vscode", func(dir string) { put(t, dir+"/.vscode/tasks.json", "evil") }},
		{"a name of several parts", ".hg/hgrc", func(dir string) { put(t, dir+"/.hg/hgrc", "evil") }},
		{"a link", ".idea", func(dir string) { must(t, os.Symlink("/", dir+"/.idea")) }},
		{"a configuration", "r/.git/config: core.fsmonitor", func(dir string) { repository(dir+"/r", "[core]\n\tfsmonitor = evil\n") }},
		{"a hook", "r/.git/hooks/pre-commit", func(dir string) {
			repository(dir+"/r", "")
			put(t, dir+"/r/.git/hooks/pre-commit", "evil")
		}},
		{"a hook of a repository that was there", "proj/.git/hooks/pre-commit", func(dir string) {
			put(t, dir+"/proj/.git/hooks/pre-commit", "evil")
		}},
		{"a harmless repository", "", func(dir string) {
			repository(dir+"/r", "[user]\n\tname = agent\n")
			put(t, dir+"/r/.git/hooks/x.sample", "")
			put(t, dir+"/other", "")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, record := t.TempDir(), t.TempDir()+"/record"
			put(t, dir+"/.mcp.json", "of a person")
			repository(dir+"/proj", "[core]\n\tfsmonitor = mine\n")
			put(t, dir+"/proj/.git/hooks/post-commit", "of a person")
			p, err := recorded(t, dir, record)
			must(t, err)
			during(t, p, func() {})
			put(t, dir+"/.claude/settings.json", "of a person")
			var mine unix.Stat_t
			must(t, unix.Stat(dir+"/.claude/settings.json", &mine))
			for !fileClock().After(time.Unix(mine.Ctim.Unix())) {
				runtime.Gosched() // a file of the same tick would be in doubt, too
			}
			must(t, p.start())
			tt.command(dir)
			must(t, p.Close()) // its locks end, as if the process ended
			p, err = recorded(t, dir, record)
			if tt.want == "" {
				must(t, err)
			} else {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), ".mcp.json") || strings.Contains(err.Error(), ".claude") || strings.Contains(err.Error(), "post-commit") {
					t.Fatalf("got %v, want an error that names %s alone", err, tt.want)
				}
				for _, mark := range runningMarks(t, record) {
					must(t, os.Remove(mark)) // a person has looked
				}
				p, err = recorded(t, dir, record)
				must(t, err)
			}
			defer p.Close()
			during(t, p, func() {})
			if left := runningMarks(t, record); len(left) != 1 {
				t.Errorf("before the walk after the last command: %q", left)
			}
			p.walkAll(t)
			if left := runningMarks(t, record); len(left) > 0 {
				t.Errorf("after the last command: %q", left)
			}
		})
	}
}

// A search for homes that are not where they were lists no more directories than its bound.
// If there are more, and it has not found all homes, it fails.
func TestTheSearchForHomesIsBounded(t *testing.T) {
	const most = 8 // the workspace, and the first seven directories in it
	for _, tt := range []struct {
		name, at string // at is where the home is now; empty if it was removed
		dirs     int    // directories in the workspace
		found    bool
		fails    bool
	}{
		{name: "removed, and all were listed", dirs: most - 1},
		{name: "removed, and one more directory", dirs: most, fails: true},
		{name: "in a directory that is listed", dirs: most - 1, at: "d/home", found: true},
		{name: "in the last one that is listed", dirs: 3 * most, at: "last/home", found: true},
		{name: "beneath those that are listed", dirs: 3 * most, at: "first/a/b/home", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			for i := range tt.dirs {
				must(t, os.Mkdir(fmt.Sprintf("%s/%02d", top, i), 0o755))
			}
			root := openForTest(t, top)
			// The order of a directory is the file system's.
			var order []string
			must(t, eachEntry(root, func(e dirent) bool { order = append(order, e.name); return true }))
			names := map[string]string{"first": order[0], "d": order[0], "last": order[min(most-1, len(order))-1]}
			first, rest, _ := strings.Cut(tt.at, "/")
			at := filepath.Join(names[first], rest)
			home := filepath.Join(top, at)
			if tt.at == "" {
				home = t.TempDir()
			}
			must(t, os.MkdirAll(home, 0o755))
			id, err := birthOf(openForTest(t, home))
			must(t, err)
			k := &knowledge{workdir: workdir{root: root}, record: "the record"}
			defer func() {
				for _, h := range k.homes {
					h.dir.Close()
				}
			}()
			err = k.search(map[uint64]recordEntry{id.ino: {Path: "was", Ino: id.ino, Born: id.born}}, most)
			if tt.fails != (err != nil) || err != nil && !strings.Contains(err.Error(), `in 8 directories, and the workspace has more: "was"`) {
				t.Errorf("got %v, want an error that names the home: %v", err, tt.fails)
			}
			if found := len(k.homes) == 1 && k.homes[0].path == at; found != tt.found {
				t.Errorf("found: got %v, want %v", found, tt.found)
			}
		})
	}
}

// A server does not take for a person's work what a command of another server may have
// made, until the other server has looked at all of it.
func TestASecondServerTakesNothingOfACommand(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()+"/record"
	put(t, dir+"/a/b/x", "")
	put(t, dir+"/.idea/x", "of a person")
	older(t, dir)
	first, err := recorded(t, dir, record)
	must(t, err)
	defer first.Close()
	must(t, first.start())
	put(t, dir+"/.envrc", "evil")
	repository(dir+"/a/b/r", evilConfig)
	want := func(when string, names ...string) {
		t.Helper()
		second, err := recorded(t, dir, record)
		if err == nil {
			second.Close()
		}
		if (err == nil) != (len(names) == 0) {
			t.Fatalf("%s: got %v, want an error that names %q", when, err, names)
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), ".idea") {
				t.Errorf("%s: got %v, want %s in it", when, err, name)
			}
		}
	}
	want("while the command runs", ".envrc", "a/b/r/.git/config")
	_, err = first.stop()
	must(t, err)
	want("before the walk", "a/b/r/.git/config")
	first.walkAll(t)
	want("after it")
	_, err = first.walkFor(time.Minute) // nothing is new, so it keeps no lock
	must(t, err)
	repository(dir+"/a/b/person", "[core]\n\tfsmonitor = mine\n")
	_, err = first.walkFor(time.Minute)
	must(t, err)
	want("after a walk while none ran")
	if err := unix.Flock(int(openForTest(t, dir).Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("a lock is left: %v", err)
	}
	if evilIn(dir+"/.envrc") || evilIn(dir+"/a/b/r/.git/config") {
		t.Error("what the command made is still there")
	}
}

// A server that continues to run sees that another one was killed, and does not take for a
// person's work what the commands of that one have left.
func TestALivingServerFollowsAKilledOne(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()+"/record"
	put(t, dir+"/a/b/x", "")
	living, err := recorded(t, dir, record)
	must(t, err)
	defer living.Close()
	older(t, dir)
	killed := func(command func()) {
		p, err := recorded(t, dir, record)
		must(t, err)
		must(t, p.start())
		command()
		must(t, p.Close())
	}
	killed(func() { put(t, dir+"/.envrc", "evil") })
	if err := living.start(); err == nil || !strings.Contains(err.Error(), ".envrc") {
		t.Fatalf("got %v, want an error that names .envrc", err)
	}
	must(t, os.Remove(dir+"/.envrc"))
	during(t, living, func() {})
	killed(func() { repository(dir+"/a/b/r", evilConfig) })
	put(t, dir+"/something", "")
	during(t, living, func() {})
	living.walkAll(t)
	if evilIn(dir + "/a/b/r/.git/config") {
		t.Error("what a killed server's command made is still there")
	}
	if left := runningMarks(t, record); len(left) > 0 {
		t.Errorf("after the walk: %q", left)
	}
}

// Servers that begin while another one still runs commands, and are killed, leave a file
// each. The last server that runs removes all these files, even if nothing changed since
// its last look. By then it has judged everything that the killed servers made in the
// depth.
func TestTheLastServerClearsUpAfterKilledOnes(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()+"/record"
	put(t, dir+"/a/b/x", "")
	older(t, dir)
	living, err := recorded(t, dir, record)
	must(t, err)
	defer living.Close()
	must(t, living.start())
	for i := range 3 {
		p, err := recorded(t, dir, record)
		must(t, err)
		must(t, p.start())
		if i == 2 {
			repository(dir+"/a/b/r", evilConfig)
		}
		must(t, p.Close()) // its locks end, as if the process ended
	}
	_, err = living.stop()
	must(t, err)
	if left := runningMarks(t, record); len(left) != 4 {
		t.Fatalf("before the walk: %q", left)
	}
	living.walkAll(t)
	if left := runningMarks(t, record); len(left) > 0 {
		t.Errorf("after the walk: %q", left)
	}
	if evilIn(dir + "/a/b/r/.git/config") {
		t.Error("what a killed server's command made is still there")
	}
}

// A walk does not take for a person's work what a server made that was killed after the
// last look and before the walk ended.
func TestAWalkDoubtsWhatAKilledServerMade(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()+"/record"
	living, err := recorded(t, dir, record)
	must(t, err)
	defer living.Close()
	older(t, dir)
	during(t, living, func() {})
	killed, err := recorded(t, dir, record)
	must(t, err)
	must(t, killed.start())
	put(t, dir+"/.envrc", "evil")
	must(t, killed.Close())
	if _, err := living.walkFor(time.Minute); err == nil || !strings.Contains(err.Error(), ".envrc") {
		t.Errorf("got %v, want an error that names .envrc", err)
	}
	if left := runningMarks(t, record); len(left) == 0 {
		t.Error("nothing says any more that a server was killed")
	}
}

// All profiles share a Protector. A further profile does not take for a person's work what
// a command has made, and its paths are protected from then on.
func TestAFurtherProfileIsProtectedToo(t *testing.T) {
	p, dir := guarded(t, func(dir string) {
		put(t, dir+"/deploy/x", "of a person")
		repository(dir+"/proj", "")
	})
	must(t, p.start())
	put(t, dir+"/.envrc", "evil")
	must(t, p.Add([]string{"deploy/", "proj"}))
	put(t, dir+"/deploy/x", "evil")
	put(t, dir+"/deploy/y", "evil")
	put(t, dir+"/proj/file", "evil")
	_, err := p.stop()
	must(t, err)
	for _, name := range []string{".envrc", "deploy/x", "deploy/y", "proj/file"} {
		if evilIn(filepath.Join(dir, name)) {
			t.Errorf("%s is what the command made", name)
		}
	}
	for _, one := range []string{"deploy", "proj"} {
		if !pinned(t, p)[one].Dir {
			t.Errorf("%s is not pinned", one)
		}
	}
	if p.Add([]string{"../x"}) == nil {
		t.Error("a path outside was taken")
	}
	must(t, p.Add([]string{"deploy"}))
}
