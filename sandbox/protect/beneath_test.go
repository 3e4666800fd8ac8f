package protect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that cannot be written whole keeps what stands before the first setting that was
// taken away, and nothing of that setting or after it.
func TestARewriteThatFailsLeavesNoSetting(t *testing.T) {
	const (
		long  = "# a line of a person that is longer than the fifty bytes that can be written\n"
		evil  = "\tfsmonitor = ./x\n"
		after = "[user]\n\tname = a person\n"
	)
	for _, tt := range []struct{ old, text, want string }{
		{long + "[core]\n" + evil + after, long + "[core]\n" + after, long + "[core]\n"},
		{"[core]\n" + evil + long, "[core]\n" + long, "[core]\n"},
		{long + "[core]\n\tpager = x" + evil + after, long + "[core]\n\tpager = x" + after, long + "[core]\n"},
		{long + "[core]\n\tpager = less \\\n -R\n" + evil, long + "[core]\n\tpager = less \\\n", long + "[core]\n"},
		{long + "exec ./x\n", long, long},
	} {
		p, dir := guarded(t, nil)
		name := filepath.Join(dir, ".gitmodules")
		put(t, name, tt.old)
		st, err := statAt(p.root, ".gitmodules")
		must(t, err)
		var limit unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 50, Max: limit.Max}))
		err = rewriteAt(p.root, ".gitmodules", st, []byte(tt.old), []byte(tt.text))
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
		if err == nil {
			t.Error("a write beyond the limit did not fail")
		}
		now, err := os.ReadFile(name)
		if strings.Contains(string(now), "./x") || string(now) != tt.want || err != nil {
			t.Errorf("%q became %q, %v; want %q", tt.old, now, err, tt.want)
		}
		put(t, name, tt.old)
		must(t, rewriteAt(p.root, ".gitmodules", st, []byte(tt.old), []byte(tt.text)))
		if now, err := os.ReadFile(name); err != nil || string(now) != tt.text {
			t.Errorf("got %q, %v; want %q", now, err, tt.text)
		}
	}
}
