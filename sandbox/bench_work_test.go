package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"belljar.dev/sandbox"
)

// works are scripts like those that an agent runs in a shell. The host's /usr serves as a
// large tree: a box has the same tree.
var works = []struct {
	name, needs, script string
	rounds              int
}{
	{"find", "/usr", "find /usr -name '*7' | wc -l", 12},
	{"grep", "/usr/include", "grep -rl define /usr/include | wc -l", 20},
	{"gcc", "/usr/bin/gcc", "gcc hello.c -o hello", 20},
	{"forks", "/bin/true", "for i in {1..200}; do /bin/true; done", 20},
	{"files", "/bin/rm", "mkdir many; for i in {1..2000}; do echo $i > many/$i; done; rm -r many", 8},
}

// BenchmarkWork measures how much a box slows down the programs in it: the same script
// outside and inside, on the same files, and in bubblewrap.
func BenchmarkWork(b *testing.B) {
	const limit = 1.1
	box, dir := openBox(b, grant(b))
	write(b, filepath.Join(dir, "hello.c"), "#include <stdio.h>\nint main(void) { return puts(\"hi\") < 0; }\n")
	env := environment(b, box)
	path, noBwrap := exec.LookPath("bwrap")
	for _, work := range works {
		b.Run(work.name, func(b *testing.B) {
			if _, err := os.Stat(work.needs); err != nil {
				b.Skip(err)
			}
			argv := []string{"/bin/bash", "-c", work.script}
			ways := []way{
				{name: "raw", run: func() { rawRun(b, dir, env, argv...) }},
				{name: "box", run: func() { boxRun(b, box, sandbox.Cmd{Argv: argv}) }, limit: limit},
			}
			if noBwrap == nil {
				line := bwrap(dir, argv)
				line[0] = path
				ways = append(ways, way{name: "bwrap", run: func() { rawRun(b, dir, env, line...) }})
			}
			race(b, work.rounds, ways...)
		})
	}
}
