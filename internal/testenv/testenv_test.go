package testenv

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestRequired(t *testing.T) {
	met := func() string { return "" }
	missing := func() string { return "it is not there" }
	var (
		gone  = Thing{Name: "gone", lack: missing}
		one   = Thing{Name: "one", either: "pair", lack: missing}
		other = Thing{Name: "other", either: "pair", lack: met}
		left  = Thing{Name: "left", either: "none", lack: missing}
		right = Thing{Name: "right", either: "none", lack: missing}
	)
	known := []Thing{gone, one, other, left, right}
	for _, c := range []struct {
		want  string
		thing Thing
		fatal bool
	}{
		{"", gone, false},
		{"all", gone, true},
		{"gone", gone, true},
		{"some, gone", gone, true},
		{"some", gone, false},
		{"all", one, false}, // its alternative is available
		{"one", one, true},  // required by its name
		{"all", left, true}, // neither alternative is available
		{"all", right, true},
	} {
		if got := required(c.want, c.thing, known); got != c.fatal {
			t.Errorf("TEST_REQUIRE=%q and %s missing: got fatal %v, want %v", c.want, c.thing.Name, got, c.fatal)
		}
	}
}

// recorder is a testing.TB that records skips and failures.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = format
	panic(r)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = format
	panic(r)
}

func TestNeedSkipsOrFails(t *testing.T) {
	run := func(things ...Thing) (r *recorder) {
		r = &recorder{TB: t}
		defer func() { _ = recover() }()
		Need(r, things...)
		return r
	}
	gone := Thing{Name: "gone", lack: func() string { return "it is not there" }}

	t.Setenv("TEST_REQUIRE", "")
	if r := run(gone); r.skipped == "" || r.failed != "" {
		t.Errorf("nothing required: got skip %q, failure %q, want a skip", r.skipped, r.failed)
	}
	t.Setenv("TEST_REQUIRE", "all")
	if r := run(gone); r.failed == "" || r.skipped != "" {
		t.Errorf("all required: got skip %q, failure %q, want a failure", r.skipped, r.failed)
	}
}

// An example cannot skip itself, so NeedForExamples sets the flag that skips all examples.
func TestExamplesAreLeftOut(t *testing.T) {
	t.Setenv("TEST_REQUIRE", "")
	skips := flag.Lookup("test.skip").Value
	before := skips.String()
	defer func() { _ = skips.Set(before) }()
	for _, row := range []struct{ lack, before, after string }{
		{"", "", ""},
		{"", "TestX", "TestX"},
		{"it is gone", "", "^Example"},
		{"it is gone", "TestX", "^Example|TestX"},
	} {
		_ = skips.Set(row.before)
		NeedForExamples(Thing{Name: "thing", lack: func() string { return row.lack }})
		if got := skips.String(); got != row.after {
			t.Errorf("lacking %q, with %q skipped before: got %q, want %q", row.lack, row.before, got, row.after)
		}
	}
}

func TestRootOrUser(t *testing.T) {
	if (Root.Missing() == "") == (User.Missing() == "") {
		t.Errorf("root lacks %q and user lacks %q: exactly one must hold", Root.Missing(), User.Missing())
	}
}

// found reports whether an entry of left starts with kind and contains what.
func found(left []string, kind, what string) bool {
	return slices.ContainsFunc(left, func(l string) bool {
		return strings.HasPrefix(l, kind) && strings.Contains(l, what)
	})
}

func TestLeaksAreFound(t *testing.T) {
	before := take(nil)
	if left := wait(before, nil, patience); len(left) != 0 {
		t.Fatalf("nothing was done, yet left: %q", left)
	}

	release := make(chan struct{})
	ended := make(chan struct{})
	go func() { <-release; close(ended) }()
	file, err := os.Open("leftover.go")
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}

	left := wait(before, nil, 0)
	if !found(left, "goroutine ", "TestLeaksAreFound.func") {
		t.Errorf("the goroutine is not named with its stack: %q", left)
	}
	if !found(left, "descriptor ", "leftover.go") {
		t.Errorf("the open file is not named: %q", left)
	}
	if !found(left, "child process "+strconv.Itoa(child.Process.Pid), "") {
		t.Errorf("the child is not named: %q", left)
	}
	if left := wait(before, []string{"TestLeaksAreFound"}, 0); found(left, "goroutine ", "") {
		t.Errorf("a goroutine that may stay is named: %q", left)
	}

	close(release)
	<-ended
	file.Close()
	child.Process.Kill()
	child.Wait()
	if left := wait(before, nil, patience); len(left) != 0 {
		t.Errorf("all was put back, yet left: %q", left)
	}
}

func TestCgroupsByName(t *testing.T) {
	root := t.TempDir()
	mine := filepath.Join(root, "a", "belljar-"+strconv.Itoa(os.Getpid()))
	theirs := filepath.Join(root, "a", "belljar-1")
	scope := filepath.Join(root, "b", "belljar-"+strconv.Itoa(os.Getpid())+".7.scope")
	inside := filepath.Join(scope, "belljar."+strconv.Itoa(os.Getpid())+".7.1")
	for _, dir := range []string{mine, theirs, inside, filepath.Join(root, "a", "other")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	all := make(map[string]string)
	cgroups(all, root)
	if len(all) != 2 || all["cgroup "+mine] == "" || all["cgroup "+inside] == "" {
		t.Errorf("got %q, want only %s and %s: pid 1 lives and is not us, and the scope is systemd's", all, mine, inside)
	}
}

// status is a Runner whose Run returns this status.
type status int

func (s status) Run() int { return int(s) }

func TestCheckedKeepsTheStatus(t *testing.T) {
	for _, code := range []int{0, 2} {
		if got := Checked(status(code)).Run(); got != code {
			t.Errorf("got status %d, want %d", got, code)
		}
	}
}
