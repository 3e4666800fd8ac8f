package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// changeable has two names of one directory of a box: the name under which it is written,
// and the name under which its files are executed.
type changeable struct{ written, executed string }

// changeables makes directories that a box can change, and that it finds among the programs
// of the system. It returns the mounts for the policy, and the names of the directories.
func changeables(t *testing.T) (mounts string, all []changeable) {
	t.Helper()
	var places []string
	for _, dir := range []string{"/usr/local/bin", "/usr/local/sbin", "/usr/local/games", "/usr/local/src", "/usr/local/lib", "/usr/src"} {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			places = append(places, dir)
		}
	}
	if len(places) < 3 {
		t.Skip("the host has too few directories below /usr to mount something over them")
	}
	over, twice, links := t.TempDir(), t.TempDir(), t.TempDir()
	for name, target := range map[string]string{"far": "/tmp/w", "near": "../../../tmp/w"} {
		if err := os.Symlink(target, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	mounts = fmt.Sprintf("write: [%q, %q], read: [%q, %q]", over+":"+places[0], twice+":/srv/b", twice+":"+places[1], links+":"+places[2])
	return mounts, []changeable{
		{places[0], places[0]},
		{"/srv/b", places[1]},
		{"/tmp/w", places[2] + "/far"},
		{"/tmp/w", places[2] + "/near"},
		{"/tmp/w", "/usr/bin/../../tmp/w"},
		{"/tmp/w", "/bin/../../tmp/w"},
		{"/tmp/w", "/tmp/w"},
	}
}

// TestRandomExecsChange has a box execute a harmless program and then, immediately and by
// the same name, a denied one. If the name leads to a file that a box can change, the
// supervisor must not remember the first file.
func TestRandomExecsChange(t *testing.T) {
	cases, r := testenv.Cases(t, 40)
	mounts, places := changeables(t)
	open := func(mode string) *sandbox.Box {
		p, err := policies.Parse("touch.yaml", []byte(strings.Replace(fmt.Sprintf(touchPolicy, mode), "system: true,", "system: true, "+mounts+",", 1)))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := openBox(t, p.Decide(policies.Facts{Tenant: "t", Session: "s", Tool: "Bash", Command: "true"}).Grant)
		return b
	}
	free, held := open("observe"), open("enforce")
	const batch = 50
	for from := 0; from < cases; from += batch {
		n := min(batch, cases-from)
		var script strings.Builder
		script.WriteString("exec 2>/dev/null; rm -rf /tmp/w /tmp/made; mkdir /tmp/w /tmp/made\n")
		for i := range n {
			fmt.Fprintf(&script, "( %s ); [ -e /tmp/made/%d ] && echo made %[2]d\n", changedProgram(r, places, from+i), from+i)
		}
		if _, out := shell(t, free, script.String()); strings.Count(out, "made ") != n {
			t.Fatalf("control: %q is not %d that made something, in %s", out, n, script.String())
		}
		if _, out := shell(t, held, script.String()); strings.Contains(out, "made") {
			t.Errorf("came through: %q of %s", out, script.String())
		}
	}
	for mode, b := range map[string]*sandbox.Box{"observe": free, "enforce": held} {
		known, can := b.KnownExecs()
		if can && len(known) == 0 {
			t.Errorf("%s: control: nothing is remembered, not even of the system's own programs", mode)
		}
		for _, name := range known {
			for _, place := range places {
				if strings.HasPrefix(name, place.executed+"/") || strings.HasPrefix(name, place.written+"/") {
					t.Errorf("%s: %s is remembered, which a box can change", mode, name)
				}
			}
		}
	}
}

// changedProgram returns a script that executes a file as something harmless, and then as a
// program that makes the file n.
func changedProgram(r *rand.Rand, places []changeable, n int) string {
	place := places[r.IntN(len(places))]
	name := fmt.Sprintf("f%d", n)
	dir, file, up := fmt.Sprintf("d%d", n), name, r.IntN(3) == 0
	if up {
		file = dir + "/" + name
	}
	run := fmt.Sprintf("%s/%s /tmp/made/%d; ", place.executed, file, n)
	harmless := []string{"printf '#!/bin/true\\n' > %[1]s; chmod +x %[1]s; ", "ln -s /bin/true %[1]s; ", "cp /bin/true %[1]s; "}[r.IntN(3)]
	denied := []string{"printf '#!/usr/bin/touch\\n' > %[1]s; chmod +x %[1]s; ", "ln -s /usr/bin/touch %[1]s; ", "ln -s ../../../../../../usr/bin/touch %[1]s; "}[r.IntN(3)]
	var b strings.Builder
	fmt.Fprintf(&b, "cd %s; ", place.written)
	if up {
		fmt.Fprintf(&b, "mkdir %s %s.new; ", dir, dir)
		if r.IntN(2) == 0 { // the directory becomes a link
			fmt.Fprintf(&b, "mv %[1]s %[1]s.old; ln -s %[1]s.old %[1]s; ", dir)
		}
	}
	fmt.Fprintf(&b, harmless, file)
	b.WriteString(strings.Repeat(run, 1+r.IntN(3)))
	switch {
	case up && r.IntN(2) == 0:
		fmt.Fprintf(&b, denied, dir+".new/"+name)
		fmt.Fprintf(&b, "mv -T %[1]s %[1]s.gone; mv -T %[1]s.new %[1]s; ", dir)
	case r.IntN(2) == 0:
		fmt.Fprintf(&b, denied, file+".new")
		fmt.Fprintf(&b, "mv -fT %[1]s.new %[1]s; ", file)
	default:
		fmt.Fprintf(&b, "rm -f %s; ", file)
		fmt.Fprintf(&b, denied, file)
	}
	b.WriteString(run)
	return b.String()
}
