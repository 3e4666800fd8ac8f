package protect

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// burrowed makes a directory below dir, unless it exists. Its path is longer than PATH_MAX,
// so no system call accepts the whole path. burrowed returns a short name of the directory,
// which is valid until closed is called.
func burrowed(dir string) (name string, closed func(), err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for n := 0; err == nil && n < unix.PathMax/unix.NAME_MAX+2; n++ {
		name, above := strings.Repeat("d", unix.NAME_MAX), fd
		_ = unix.Mkdirat(above, name, 0o755)
		fd, err = unix.Openat(above, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(above)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { unix.Close(fd) }, err
}

func burrowedForTest(t *testing.T, dir string) string {
	t.Helper()
	name, closed, err := burrowed(dir)
	must(t, err)
	t.Cleanup(closed)
	return name
}

// A walk does not reach a path that is longer than PATH_MAX. A command makes a repository
// there, and a later command moves it, or a directory above it, to a place that the walk
// reaches. Its files are old by then, and still do not count as a person's.
func TestWhatWasMovedUpIsNotAPersons(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   string // path of the repository at the end
		move func(hidden, dir string) error
	}{
		{"the repository", "a/b/repo", func(hidden, dir string) error { return os.Rename(hidden+"/x/repo", dir+"/a/b/repo") }},
		{"a directory above it", "a/b/x/repo", func(hidden, dir string) error { return os.Rename(hidden+"/x", dir+"/a/b/x") }},
		{"to the place of one that is known", "a/known/x/repo", func(hidden, dir string) error {
			must(t, os.Rename(dir+"/a/known", dir+"/a/away"))
			must(t, os.Rename(hidden+"/y", dir+"/a/known"))
			return nil
		}},
		{"a bare one", "a/b/store", func(hidden, dir string) error { return os.Rename(hidden+"/x/store", dir+"/a/b/store") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, dir := guarded(t, func(dir string) { put(t, dir+"/a/b/c/file", "") })
			var hidden string
			during(t, p, func() {
				repository(dir+"/a/known/x", "")
				hidden = burrowedForTest(t, dir+"/a/b/c")
				repository(hidden+"/x/repo", evilConfig)
				repository(hidden+"/x/store", evilConfig)
				repository(hidden+"/y/x/repo", evilConfig)
			})
			p.walkAll(t)
			if !p.unseen.IsZero() || !evilIn(hidden+"/x/repo/.git/config") {
				t.Fatal("the walk has not passed over it: the test proves nothing")
			}
			older(t, dir)
			during(t, p, func() { must(t, tt.move(hidden, dir)) })
			p.walkAll(t)
			during(t, p, func() {})
			for _, harm := range []string{"/.git/config", "/config"} {
				if _, err := os.Stat(dir + "/" + tt.at + "/HEAD"); evilIn(dir+"/"+tt.at+harm) && (err == nil || harm != "/config") {
					t.Errorf("%s is still there", tt.at+harm)
				}
			}
		})
	}
}

// twoServers returns the Protectors of two servers for one workspace, with one record.
func twoServers(t *testing.T, dir, record string) (first, second *Protector) {
	t.Helper()
	for _, p := range []**Protector{&first, &second} {
		made, err := recorded(t, dir, record)
		must(t, err)
		t.Cleanup(func() { must(t, made.Close()) })
		*p = made
	}
	return first, second
}

// Two servers work in one workspace. The command of the second server begins after a
// command of the first one has made a repository. The second server does not take the
// repository for a person's, and does not restore it.
func TestTheLaterServerTakesNothingOfAnEarlierCommand(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()+"/record"
	put(t, dir+"/a/b/x", "")
	first, second := twoServers(t, dir, record)
	must(t, first.start())
	repository(dir+"/a/b/r", evilConfig)
	put(t, dir+"/a/b/r/.git/hooks/pre-commit", "evil")
	older(t, dir)
	must(t, second.start())
	_, err := second.walkFor(time.Minute)
	must(t, err)
	_, err = first.stop()
	must(t, err)
	first.walkAll(t)
	_, err = second.stop()
	must(t, err)
	second.walkAll(t)
	for _, name := range []string{"config", "hooks/pre-commit"} {
		if evilIn(dir + "/a/b/r/.git/" + name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// A server is killed while its command runs. The command has made a repository of old
// files. The error of the next server names these files, as it would name new ones.
func TestAKilledServerLeavesDoubtOfOldFiles(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		command    func(dir string)
	}{
		{"a git directory", "new/.git/config: core.fsmonitor", func(dir string) {
			must(t, os.Mkdir(dir+"/new", 0o755))
			must(t, os.Rename(dir+"/old/git", dir+"/new/.git"))
			put(t, dir+"/new/.git/HEAD", "ref: refs/heads/main\n")
		}},
		{"the git directory of the workspace", ".git/config: core.fsmonitor", func(dir string) {
			must(t, os.Rename(dir+"/old/git", dir+"/.git"))
			put(t, dir+"/.git/HEAD", "ref: refs/heads/main\n")
		}},
		{"with a directory around it", "a/new/.git/config: core.fsmonitor", func(dir string) {
			must(t, os.Rename(dir+"/old/git", dir+"/old/.git"))
			put(t, dir+"/old/.git/HEAD", "ref: refs/heads/main\n")
			must(t, os.Rename(dir+"/old", dir+"/a/new"))
		}},
		{"hooks of a repository that was there", "made/.git/hooks/pre-commit", func(dir string) {
			must(t, os.RemoveAll(dir+"/made/.git/hooks"))
			must(t, os.Rename(dir+"/old/git/hooks", dir+"/made/.git/hooks"))
		}},
		{"what hg runs", "made/.hg/hgrc", func(dir string) { must(t, os.Rename(dir+"/old/hg", dir+"/made/.hg")) }},
		{"nothing that runs", "", func(dir string) {
			put(t, dir+"/made/file", "")
			put(t, dir+"/file", "")
			put(t, dir+"/made/.git/index.lock", "")
			must(t, os.Mkdir(dir+"/new", 0o755))
			must(t, os.RemoveAll(dir+"/old/git/hooks"))
			put(t, dir+"/old/git/HEAD", "ref: refs/heads/main\n")
			must(t, os.Remove(dir+"/old/git/config"))
			must(t, os.Rename(dir+"/old/git", dir+"/new/.git"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, record := t.TempDir(), t.TempDir()+"/record"
			put(t, dir+"/a/x", "")
			repository(dir+"/made", "[core]\n\tfsmonitor = mine\n")
			put(t, dir+"/made/.git/hooks/post-commit", "of a person")
			for _, d := range []string{"objects", "refs"} {
				must(t, os.MkdirAll(dir+"/old/git/"+d, 0o755))
			}
			put(t, dir+"/old/git/config", evilConfig)
			put(t, dir+"/old/git/hooks/pre-commit", "evil")
			put(t, dir+"/old/hg/hgrc", "evil")
			older(t, dir)
			p, err := recorded(t, dir, record)
			must(t, err)
			must(t, p.start())
			tt.command(dir)
			must(t, p.Close()) // its locks end, as if the process ended
			p, err = recorded(t, dir, record)
			if err == nil {
				must(t, p.Close())
			}
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "post-commit")):
				t.Errorf("got %v, want an error that names %s alone", err, tt.want)
			}
		})
	}
}

// A box can lock the workspace, so that the server of another box cannot. That server still
// does not count as dead, and the files of its command still do not count as a person's.
func TestALockOfABoxHidesNoServer(t *testing.T) {
	dir, record := t.TempDir(), t.TempDir()+"/record"
	put(t, dir+"/a/x", "")
	first, second := twoServers(t, dir, record)
	box := openForTest(t, dir)
	must(t, unix.Flock(int(box.Fd()), unix.LOCK_EX))
	must(t, first.start())
	must(t, unix.Flock(int(box.Fd()), unix.LOCK_UN))
	put(t, dir+"/one", "")
	during(t, second, func() {})
	second.walkAll(t)
	if left := runningMarks(t, record); len(left) == 0 {
		t.Error("the file that says that the first server runs a command is gone")
	}
	put(t, dir+"/.envrc", "evil")
	must(t, second.start())
	_, err := first.stop()
	must(t, err)
	put(t, dir+"/two", "")
	_, err = second.stop()
	must(t, err)
	if evilIn(dir + "/.envrc") {
		t.Error("what a command made was put back")
	}
	first.walkAll(t)
	second.walkAll(t)
	if left := runningMarks(t, record); len(left) > 0 {
		t.Errorf("after the walks: %q", left)
	}
}
