package sandbox_test

import (
	"os/exec"
	"testing"

	"belljar.dev/internal/testenv"
)

// tools are programs that the seccomp filter must not break, although it refuses many
// system calls. Each script ends with status 0 in a box, unless the tool has lost a system
// call that it needs.
var tools = []struct {
	program string // name of a program that the host must have
	script  string
}{
	{"bash", `set -e; mkdir d; (cd d; for i in 1 2 3; do echo $i > $i; done); cat < d/1 | tee d/4 > /dev/null; cat <(echo hi); trap true EXIT; sleep 0.01 & wait`},
	{"cp", `set -e; mkdir s; echo x > s/x; ln -s x s/l; cp -a s t; mv t u; touch -d @0 u/x; stat -c %a u/x; sort s/x | uniq -c; mkfifo f; df . ; timeout 5 nice -n 5 true; stdbuf -oL true; dd if=/dev/zero of=z bs=64k count=2 conv=fsync 2>&1; sync z; shred -u z; date; nproc`},
	{"tar", `set -e; mkdir a; echo x > a/x; chmod 640 a/x; tar cf a.tar a; rm -r a; tar xf a.tar; test "$(stat -c %a a/x)" = 640`},
	{"git", `set -e; git init -q r; cd r; git config user.email a@example.com; git config user.name a; echo x > x; git add x; git commit -qm x; git gc -q; git clone -q . ../r2`},
	{"make", `printf 'all: a b\na b:\n\techo $@ > $@\n' > Makefile; make -s -j4 && cat a b`},
	{"gcc", `set -e; printf '#include <stdio.h>\nint main(void) { return puts("hi") < 0; }\n' > h.c; gcc -pipe h.c -o h; ./h`},
	{"go", `set -e; export HOME=/tmp GOCACHE=/tmp/cache GOTOOLCHAIN=local; printf 'package main\nfunc main() {}\n' > m.go; go mod init m; go list -deps .; go tool -n asm`},
	{"node", `node -e 'const {Worker} = require("worker_threads"), fs = require("fs"); fs.watch(".").close(); require("child_process").execSync("true"); new Worker("1", {eval: true}); require("net").createServer().listen(0, "127.0.0.1", function () { this.close() })'`},
	{"npm", `HOME=/tmp npm --offline --no-update-notifier init -y`},
	{"perl", `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; system("true") == 0 or die; $SIG{ALRM} = sub {}; alarm 1; fork // die'`},
	{"python3", `python3 -c 'import asyncio, mmap, multiprocessing, resource, sqlite3, subprocess, tempfile
if __name__ == "__main__":
    subprocess.run(["true"], check=True)
    with multiprocessing.Pool(2) as p: assert p.map(abs, [-1, 2]) == [1, 2]
    asyncio.run(asyncio.sleep(0))
    resource.prlimit(0, resource.RLIMIT_NOFILE)
    c = sqlite3.connect("t.db"); c.execute("pragma journal_mode=wal"); c.execute("create table a(b)"); c.commit()'`},
	{"java", `set -e; printf 'class H { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println("hi")); t.start(); t.join(); } }' > H.java; java -XX:TieredStopAtLevel=1 H.java`},
}

// TestToolsWork runs in a box each of the tools that this host has.
func TestToolsWork(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Git, testenv.Perl)
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.program); err != nil {
			t.Logf("this host has no %s", tool.program)
			continue
		}
		t.Run(tool.program, func(t *testing.T) {
			b, _ := openBox(t, grant(t))
			if r, out := shell(t, b, "{ "+tool.script+"\n} 2>&1"); r.Code != 0 {
				t.Errorf("status %v, code %d: %q", r.Status, r.Code, out)
			}
		})
	}
}
