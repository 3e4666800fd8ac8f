package policies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// Random scripts are made of plain text, of which most is read to its end, and
// of odd text, of which most is not. There is no function and no loop that ends
// late, so that bash can be let loose on the scripts; all commands are names
// that do not exist.
var (
	plain = []string{
		"c1", "c2 a", "c3 -f b", "c4", "c1 x y", " ", " ", ";", "; ", "&&", " || ", "|", "\n", "&",
		"( ", ")", "{ ", "; }", "$(", ")", "`", "`", "'", "'", "\"", "\"", "\\", "\\\n", "#", " # ",
		"$x", "\"$x\"", "${x}", "$'a'", "$", "*", "?", "~", "{a,b}", "{}", "[ -f f ]", "[[ a == b ]]",
		" >f ", "2>&1", " <f", "&>f", ">&2", "<<<w ", "<(c4)", ">(c4)", "a=1 ", "b+=2 ", "d=",
		"if ", "then ", "fi", "; fi", "else ", "do ", "; done", "for x in a b", "!", "! ", "time ", "time -p ", "time -- ",
		"if c1; then c2; else c3; fi", "while c1; do c2; done", "for x in a b; do c3 $x; done", "{ c1; }", "(c2)",
		"c1 $(c2 \"$(c3)\")", "c1 \"`c2`\"", "c4 a\\ b 'c d' \"e f\"",
	}
	odd = []string{
		"}", "${y:-z}", "${#x}", "$\"b\"", "[", "]", "<<E\n", "\nE\n", "<", ">", "e=(c1) ", "a[1]=", "elif ", "done", "fi", "for x", " in ",
		"case x in x) ", ";; esac", "((", "))", "$((1", "$[1", "select ", "coproc ", "while c1; do ",
	}
)

// bash runs scripts with no program in its PATH and notes the words of each
// command it would have started.
type bash struct{ dir, hook string }

func newBash(t *testing.T) bash {
	testenv.Need(t, testenv.Bash)
	b := bash{dir: t.TempDir()}
	b.hook = filepath.Join(b.dir, "hook")
	// The shell calls this function for a command that it does not find.
	hook := "command_not_found_handle() { local w s=argv; for w in \"$@\"; do s+=$'\\037'$w; done; printf '%s\\036' \"$s\" >>\"$LOG\"; return 1; }\n"
	if err := os.WriteFile(b.hook, []byte(hook), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// run is the commands that script started.
func (b bash) run(t *testing.T, script string) [][]string {
	t.Helper()
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	program, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	log := work + ".log"
	cmd := exec.CommandContext(ctx, program, "-c", script)
	cmd.Dir, cmd.Env = work, []string{"PATH=" + b.dir, "LOG=" + log, "BASH_ENV=" + b.hook, "HOME=/h", "LC_ALL=C.UTF-8"}
	cmd.WaitDelay = time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out // a pipe: Wait returns when the last background command has closed it
	_ = cmd.Run()                       // most of the scripts are wrong in some way, and say so
	text, err := os.ReadFile(log)
	if err != nil {
		return nil
	}
	var all [][]string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x1e"), "\x1e") {
		all = append(all, strings.Split(entry, "\x1f")[1:])
	}
	return all
}

// listed reports whether a command is one of the parts of a script, or may
// lie in a part that was not read.
func listed(parts []part, argv []string) bool {
	for _, p := range parts {
		if p.opaque {
			return true
		}
		g := glob{}
		for _, w := range p.words {
			if w.unknown {
				g.elements = append(g.elements, element{any: true})
			} else {
				g.elements = append(g.elements, element{choice: []string{w.text}})
			}
		}
		if g.match(literals(argv)) == must {
			return true
		}
	}
	return false
}

// Whatever bash starts must be one of the parts that split makes of the text:
// a command that it overlooks is one that no rule can stop.
func TestSplitOverlooksNoCommand(t *testing.T) {
	b := newBash(t)
	scripts, seed := 400, uint64(1)
	if s := os.Getenv("SPLIT_SCRIPTS"); s != "" { // "COUNT SEED" for more than the usual few
		if _, err := fmt.Sscan(s, &scripts, &seed); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	ran, read := 0, 0
	for range scripts {
		// bash runs the lines before the first that it cannot read.
		var s strings.Builder
		for range 1 + random.IntN(4) {
			for range 1 + random.IntN(5) {
				from := plain
				if random.IntN(8) == 0 {
					from = odd
				}
				s.WriteString(from[random.IntN(len(from))])
			}
			s.WriteByte('\n')
		}
		script := s.String()
		parts := split(script)
		for _, argv := range b.run(t, script) {
			ran++
			if !parts[len(parts)-1].opaque {
				read++
			}
			if !listed(parts, argv) {
				t.Errorf("%q runs %q, which is no part of %+v", script, argv, parts)
			}
		}
	}
	t.Logf("%d scripts ran %d commands, %d of them from text that was read to its end", scripts, ran, read)
	if read < scripts/10 {
		t.Errorf("got %d commands from text that was read to its end: too few to prove anything", read)
	}
}
