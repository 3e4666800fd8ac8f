package protect

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A command fills a directory of hooks beyond what is listed of it, and puts hooks among
// the other files. Neither the look after the command nor the next adoption may leave a
// hook there.
func TestNoHookHidesInACrowd(t *testing.T) {
	p, dir := guarded(t, nil)
	must(t, p.start())
	repository(dir+"/r", "")
	hooks := dir + "/r/.git/hooks/"
	for i := range maxListed + 2000 {
		must(t, os.WriteFile(fmt.Sprintf("%s%d.sample", hooks, i), nil, 0o644))
	}
	names := []string{"post-index-change", "pre-commit", "post-commit", "commit-msg", "post-checkout", "reference-transaction", "pre-push"}
	for i := range 100 {
		names = append(names, fmt.Sprint("other-", i))
	}
	for _, name := range names {
		must(t, os.WriteFile(hooks+name, []byte("#!/bin/sh\n"), 0o755))
	}
	_, err := p.stop()
	t.Logf("the look: %v", err)
	for range 2 {
		if p.start() == nil {
			_, _ = p.stop()
		}
	}
	for _, name := range names {
		if _, err := os.Stat(hooks + name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// manyLinks returns an index with n submodules.
func manyLinks(n int, name func(int) string) []byte {
	b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("DIRC"), 2), uint32(n))
	for i := range n {
		at := len(b)
		b = append(b, make([]byte, 62)...)
		binary.BigEndian.PutUint32(b[at+24:], 0o160000)
		binary.BigEndian.PutUint16(b[at+60:], uint16(len(name(i))))
		b = append(b, name(i)...)
		b = append(b, make([]byte, 8-(len(b)-at)%8)...)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// readBytes returns how many bytes this process has read (proc_pid_io(5)).
func readBytes(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
	must(t, err)
	return n
}

// A command makes things that take long to look at. A file that is protected by its name is
// removed all the same.
func TestAFloodDoesNotHoldUpALook(t *testing.T) {
	deep := strings.Repeat("a/", 30)
	for name, flood := range map[string]func(dir string){
		"submodules in an index": func(dir string) {
			repository(dir+"/r", "")
			must(t, os.WriteFile(dir+"/r/.git/index", manyLinks(100_000, func(i int) string { return fmt.Sprint(deep, i) }), 0o644))
		},
		"large indexes": func(dir string) {
			for i := range 40 {
				git := fmt.Sprintf("%s/r%d", dir, i)
				repository(git, "")
				must(t, os.WriteFile(git+"/.git/index", []byte("DIRC"), 0o644))
				must(t, os.Truncate(git+"/.git/index", maxIndex))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, dir := guarded(t, nil)
			must(t, p.start())
			flood(dir)
			put(t, dir+"/.envrc", "evil")
			before := readBytes(t)
			p.lookAndWalk()
			read := readBytes(t) - before
			if _, err := os.Stat(filepath.Join(dir, ".envrc")); err == nil {
				t.Error("what is protected by its name is still there")
			}
			if most := int64(maxIndexes + maxIndex); read > most {
				t.Errorf("one look read %d bytes, want at most %d", read, most)
			}
			if left, err := filepath.Glob(dir + "/r*/.git/index"); err != nil || len(left) > 0 {
				t.Errorf("%v: what goes beyond a bound is still there: %v", err, left)
			}
			_, err := p.stop()
			must(t, err)
		})
	}
}

// If the directories at the top take long, only they are looked at less often.
func TestALongLookIsFollowedByShortOnes(t *testing.T) {
	p, dir := guarded(t, nil)
	must(t, p.start())
	p.whole = time.Now().Add(time.Hour)
	put(t, dir+"/.envrc", "evil")
	repository(dir, "[core]\n\tfsmonitor = evil\n")
	repository(dir+"/r", "[core]\n\tfsmonitor = evil\n")
	evil := func(name string) bool {
		text, err := os.ReadFile(filepath.Join(dir, name))
		return err == nil && strings.Contains(string(text), "evil")
	}
	p.lookAndWalk()
	if evil(".envrc") || evil(".git/config") || !evil("r/.git/config") {
		t.Errorf("after a short look: .envrc %v, .git/config %v, r/.git/config %v; want only the last", evil(".envrc"), evil(".git/config"), evil("r/.git/config"))
	}
	_, err := p.stop()
	must(t, err)
	if evil("r/.git/config") {
		t.Error("the last look was a short one")
	}
}

// The hooks in a directory are known, however many samples a command has put there before.
func TestSamplesDoNotHideHooks(t *testing.T) {
	p, dir := guarded(t, nil)
	hooks := dir + "/r/.git/hooks/"
	during(t, p, func() {
		repository(dir+"/r", "")
		for i := range maxKeptFiles + 100 {
			must(t, os.WriteFile(fmt.Sprintf("%s%d.sample", hooks, i), nil, 0o644))
		}
	})
	put(t, hooks+"post-commit", "of a person")
	during(t, p, func() {
		put(t, hooks+"pre-commit", "evil")
		put(t, hooks+"post-commit", "evil")
	})
	if _, err := os.Stat(hooks + "pre-commit"); err == nil {
		t.Error("a new hook is still there")
	}
	if text, err := os.ReadFile(hooks + "post-commit"); err != nil || string(text) != "of a person" {
		t.Errorf("a person's hook: got %q, %v", text, err)
	}
}

// An index can leave out the submodules of a directory (git: a sparse index), and git still
// asks them for their state.
func TestASparseIndexIsNotRead(t *testing.T) {
	p, dir := guarded(t, func(dir string) { repository(dir+"/proj", "") })
	index := manyLinks(1, func(int) string { return "d/" })
	binary.BigEndian.PutUint32(index[12+24:], 0o040000)
	sum := sha1.Sum(index[:len(index)-20])
	copy(index[len(index)-20:], sum[:])
	during(t, p, func() { must(t, os.WriteFile(dir+"/proj/.git/index", index, 0o644)) })
	if _, err := os.Stat(dir + "/proj/.git/index"); err == nil {
		t.Error("a sparse index that a command made is still there")
	}
}

// Files next to the configuration can name repositories that git fetches from, and whose
// programs it may run. A command cannot make such files.
func TestRemotesOfOldAreProtected(t *testing.T) {
	p, dir := guarded(t, func(dir string) { repository(dir+"/proj", "") })
	must(t, os.MkdirAll(dir+"/proj/.git/branches", 0o755))
	during(t, p, func() {
		put(t, dir+"/proj/.git/remotes/origin", "URL: ../evil\n")
		put(t, dir+"/proj/.git/branches/origin", "../evil\n")
		repository(dir+"/new", "[diff]\n\tsubmodule = diff\n\talgorithm = patience\n")
	})
	for _, name := range []string{"remotes", "branches"} {
		if _, err := os.Stat(dir + "/proj/.git/" + name + "/origin"); err == nil {
			t.Errorf("%s/origin is still there", name)
		}
	}
	if text, err := os.ReadFile(dir + "/new/.git/config"); err != nil || strings.Contains(string(text), "submodule") || !strings.Contains(string(text), "patience") {
		t.Errorf("the configuration is %q, %v; want it without diff.submodule", text, err)
	}
}

// The index of a repository names other repositories in each of its work trees. A ".git"
// file adds a work tree, which may be looked at first.
func TestAnIndexOfTwoWorkTrees(t *testing.T) {
	for _, tree := range []string{"a-store", "z-store"} {
		p, dir := guarded(t, func(dir string) {
			repository(dir+"/"+tree, "")
			repository(dir+"/lib", "")
		})
		during(t, p, func() {
			put(t, dir+"/"+tree+"/.git", "gitdir: ../lib/.git\n")
			repository(dir+"/lib/deep/x/y", "[core]\n\tfsmonitor = evil\n")
			must(t, os.WriteFile(dir+"/lib/.git/index", manyLinks(1, func(int) string { return "deep/x/y" }), 0o644))
		})
		text, err := os.ReadFile(dir + "/lib/deep/x/y/.git/config")
		if err == nil && strings.Contains(string(text), "evil") {
			t.Errorf("beside the work tree %s: git runs %q", tree, text)
		}
	}
}

// Any number of ".git" files can lead to one repository. A command can leave only
// maxGitDirs of them, and they take no longer than so many.
func TestACommandLeavesFewWorkTrees(t *testing.T) {
	p, dir := guarded(t, func(dir string) { put(t, dir+"/a/b/x", "") })
	const many = maxGitDirs + 100
	during(t, p, func() {
		repository(dir+"/lib", "")
		for i := range many {
			put(t, fmt.Sprintf("%s/a/b/%d/.git", dir, i), "gitdir: ../../../lib/.git\n")
		}
	})
	p.walkAll(t)
	left, err := filepath.Glob(dir + "/a/b/*/.git")
	if err != nil || len(left) != maxGitDirs {
		t.Errorf("%d are left, %v; want %d", len(left), err, maxGitDirs)
	}
	during(t, p, func() {}) // this look finds out what was removed since
	put(t, dir+"/file", "")
	if told := during(t, p, func() { put(t, dir+"/other", "") }); len(told) > 0 {
		t.Errorf("those that were left are not kept: %v", told)
	}
}

// A repository that the walk finds to be old is looked at as a person's. Any number of old
// work trees that are moved up from the depth share the bytes that may be read for them.
func TestOldWorkTreesShareABudget(t *testing.T) {
	p, dir := guarded(t, func(dir string) { put(t, dir+"/a/b/x", "") })
	var hidden string
	during(t, p, func() {
		repository(dir+"/lib", "")
		must(t, os.WriteFile(dir+"/lib/.git/index", manyLinks(300_000, func(int) string { return "x" }), 0o644))
		hidden = burrowedForTest(t, dir+"/a/b")
		for i := range 60 {
			put(t, fmt.Sprintf("%s/x/%d/.git", hidden, i), "gitdir: /workspace/lib/.git\n")
		}
	})
	p.walkAll(t)
	older(t, dir)
	must(t, p.start())
	must(t, os.Rename(hidden+"/x", dir+"/a/x"))
	before := readBytes(t)
	_, err := p.walkFor(time.Minute)
	must(t, err)
	if read, most := readBytes(t)-before, int64(maxIndexes); read > most {
		t.Errorf("%d bytes were read, want at most %d", read, most)
	}
	_, err = p.stop()
	must(t, err)
}

// A command makes repositories as deep as it can. A look does not take longer because of
// their depth.
func TestDeepRepositoriesDoNotMakeALookLong(t *testing.T) {
	const deep, many = 300, 8
	p, dir := guarded(t, nil)
	during(t, p, func() {
		for i := range many {
			repository(fmt.Sprintf("%s/%d%s/r", dir, i, strings.Repeat("/d", deep)), "")
		}
	})
	p.walkAll(t)
	put(t, dir+"/file", "") // so that the next look has something to adopt
	during(t, p, func() {})
	if len(p.homes) != many {
		t.Fatalf("%d repositories are known, want %d: the test proves nothing", len(p.homes), many)
	}
	if n, most := len(p.guards), 1000; n > most {
		t.Errorf("%d paths are looked at for %d repositories, want at most %d", n, many, most)
	}
	evil := fmt.Sprintf("%s/%d%s/r/.git/", dir, 3, strings.Repeat("/d", deep))
	during(t, p, func() {
		put(t, evil+"config", evilConfig)
		put(t, evil+"hooks/pre-commit", "evil")
	})
	if evilIn(evil+"config") || evilIn(evil+"hooks/pre-commit") {
		t.Error("what a command did there is still there")
	}
}

// A directory with a repository that is found deep in the workspace is looked at
// again when it changes, however many directories there are at the top.
func TestADeepDirectoryIsMarkedInACrowd(t *testing.T) {
	p, _ := guarded(t, func(dir string) { put(t, dir+"/a/b/.hg/store", "") })
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.look(false)
	for i := range maxMarked {
		l.marked[fmt.Sprint(i)] = true
	}
	l.below("a/b", nil)
	if !l.marked["a/b"] && !l.young {
		t.Error("its next change does not show")
	}
}
