package shell_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies/shell"
)

// The programs of the random scripts. stubs are scripts that record their words; real are
// the real programs that start others.
var (
	stubs = []string{"c1", "c2", "c3", "c4", "git", "rm"}
	real  = []string{"env", "timeout", "nice", "nohup", "setsid", "stdbuf", "xargs", "find", "flock", "sh", "dash", "bash", "ionice", "taskset", "watch", "script", "unshare", "setpriv", "prlimit", "chrt", "awk", "sed", "python3", "perl", "node", "sqlite3", "ls", "cat"}
)

// stub records its words in the directory above its own. dash starts faster than any other
// shell, and writes the line in one piece.
const stub = `#!/bin/sh
s=argv
for w in "${0##*/}" "$@"; do s="$s` + "\x1f" + `$w"; done
printf '%s` + "\x1e" + `' "$s" >>"${0%/bin/*}/log"
case $0 in *2) exit 1;; esac
exit 0
`

// runner runs each script of a directory with the script's own stubs, for at most two
// seconds. A function that calls itself may do so five times. runner is the first process
// of a pid namespace: everything that a script left running ends with it.
const runner = `
cd "$1"
for d in */; do
	d=$1/${d%/}
	cd "$d/w" || exit 1
	IFS= read -r -d '' s <"$d/script"
	e=()
	while IFS= read -r -d '' v; do e+=("$v"); done <"$d/env"
	PATH=$d/bin:$4 HOME=/h LC_ALL=C.UTF-8 FUNCNEST=5 "$2" -s KILL 2 "$5" "${e[@]}" "$3" -c "$s" </dev/null >/dev/null 2>&1
done
exit 0
`

// run runs scripts in bash. For each script it returns the words of every stub that the
// script started.
func run(t *testing.T, scripts []string) [][][]string {
	t.Helper()
	return runWith(t, scripts, make([][]string, len(scripts)))
}

// runWith is like run, with variables in the environment of each script.
func runWith(t *testing.T, scripts []string, envs [][]string) [][][]string {
	t.Helper()
	dir := t.TempDir()
	link := func(from, to string) {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	stubFile := filepath.Join(dir, "stub")
	if err := os.WriteFile(stubFile, []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, name := range append([]string{"unshare", "env"}, real...) {
		if file, err := exec.LookPath(name); err == nil {
			found[name] = file
		}
	}
	programs := filepath.Join(dir, "real")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range real {
		if found[name] != "" {
			link(found[name], filepath.Join(programs, name))
		}
	}
	batch := filepath.Join(dir, "batch")
	for i, script := range scripts {
		d := filepath.Join(batch, fmt.Sprintf("%06d", i))
		for _, sub := range []string{"bin", "w/p"} {
			if err := os.MkdirAll(filepath.Join(d, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range stubs {
			link(stubFile, filepath.Join(d, "bin", name))
		}
		env := ""
		for _, e := range envs[i] {
			env += e + "\x00"
		}
		for name, text := range map[string]string{
			"script": script, "env": env, "w/f": "c3\n", "w/h": "../bin/c4 h\n", "w/g": "BEGIN{system(\"c4 g\")}\n", "w/p/c1": "#!/bin/sh\nexec ../bin/c4 p\n",
		} {
			if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := []string{"--pid", "--net", "--ipc", "--fork", "--kill-child", "--", found["bash"], "-c", runner, "runner", batch, found["timeout"], found["bash"], programs, found["env"]}
	if os.Geteuid() != 0 {
		args = append([]string{"--user", "--map-root-user"}, args...)
	}
	cmd := exec.CommandContext(ctx, found["unshare"], args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("run scripts: %v: %.500s", err, out)
	}
	all := make([][][]string, len(scripts))
	for i := range scripts {
		text, err := os.ReadFile(filepath.Join(batch, fmt.Sprintf("%06d", i), "log"))
		if err != nil {
			continue // the script started no stub
		}
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x1e"), "\x1e") {
			all[i] = append(all[i], strings.Split(entry, "\x1f")[1:])
		}
	}
	return all
}

// listed reports whether words may be those of one of the commands.
func listed(s shell.Script, argv []string) bool {
	for _, c := range s.Commands {
		if fits(c.Words, argv) {
			return true
		}
	}
	return false
}

func fits(words []shell.Word, argv []string) bool {
	if len(words) == 0 {
		return len(argv) == 0
	}
	w := words[0]
	switch w.Certainty {
	case shell.Exact:
		return len(argv) > 0 && argv[0] == w.Text && fits(words[1:], argv[1:])
	case shell.Home:
		return len(argv) > 0 && fits(words[1:], argv[1:])
	case shell.One:
		return len(argv) > 0 && strings.HasPrefix(argv[0], w.Text) && fits(words[1:], argv[1:])
	case shell.Any:
	}
	if fits(words[1:], argv) {
		return true
	}
	for n := 1; n <= len(argv) && strings.HasPrefix(argv[0], w.Text); n++ {
		if fits(words[1:], argv[n:]) {
			return true
		}
	}
	return false
}

// Whatever bash starts must be one of the commands that Analyze lists, or the script must
// be opaque or unreadable: no rule can stop a command that Analyze overlooks.
// BELLJAR_TEST_SCRIPTS sets a larger number of scripts, and optionally the seed: "20000 7".
func TestOverlooksNoCommand(t *testing.T) {
	needBash(t)
	count, seed := 300, uint64(1)
	if s := os.Getenv("BELLJAR_TEST_SCRIPTS"); s != "" {
		number, rest, _ := strings.Cut(s, " ")
		var err error
		if count, err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.ParseUint(rest, 10, 64); err == nil {
			seed = n
		}
	}
	t.Logf("%d scripts of seed %d", count, seed)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	var ran, read, opaque, unreadable, bad int
	for count > 0 && bad < 20 {
		scripts := make([]string, min(count, 500))
		for i := range scripts {
			switch i % 5 {
			case 3:
				scripts[i] = g.pick("", "x=a; ", "x='a b'\n") + g.expansion() + g.pick("", "; c4", "\nc3")
			case 4:
				scripts[i] = g.soup()
			default:
				scripts[i] = g.script()
			}
		}
		count -= len(scripts)
		for i, all := range run(t, scripts) {
			s, err := shell.Analyze(scripts[i])
			switch {
			case err != nil:
				unreadable++
			case s.Doubt() != "":
				opaque++
			default:
				read++
			}
			ran += len(all)
			for _, argv := range all {
				if err == nil && s.Doubt() == "" && !listed(s, argv) {
					bad++
					t.Errorf("%q\nruns %q, which is none of\n%s", scripts[i], argv, show(s))
					break
				}
			}
		}
	}
	t.Logf("%d scripts read whole, %d opaque, %d unreadable; bash ran %d commands", read, opaque, unreadable, ran)
	if ran < (read+opaque)/2 || read < (opaque+unreadable)/4 {
		t.Error("too few commands were compared to prove anything")
	}
}

// generator makes random scripts. A script that is opaque or cannot be read still lists the
// commands that Analyze has found, but the test compares only the other scripts with bash.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

// word returns a word that expands to something without blanks.
func (g generator) word(depth int) string {
	if depth > 3 {
		return g.pick("a", "b", "x1")
	}
	switch g.IntN(24) {
	case 0:
		return `"` + g.pick("a b", "$(c3)", "$x", "a'b", `\"`, `\$x`, "`c4`", "${x:-y}") + `"`
	case 1:
		return "'" + g.pick("a b", "$(c3)", `\x`, "; c4", "", `"`) + "'"
	case 2:
		return "$'" + g.pick(`a\tb`, `\x41`, `\101z`, `it\'s`, `a\0b`, `\u0041`, `\e`, `\cA`, `\q`, `\xzz`) + "'"
	case 3:
		return "$(" + g.list(depth+2) + ")"
	case 4:
		return "`" + g.pick("c3", "c3 a", "c4 'b'", `c3 \\a`, "c1; c2", `c3 \`+"`c4\\`") + "`"
	case 5:
		return g.pick("{a,b}", "{1..3}", "x{y,z}w", "{a,{b,c}}", "{a", "b}", "{}", "{,}", "{a,}", "{$x,b}", "{a..c}", "{3..1}", "{01..02}", `{"a",b}`, "{a,b}{c,d}", "{a{b,c}d}", `\{a,b}`, "{a,b}}")
	case 6:
		return g.pick("*", "?", "[f]", "f*", "z*", "[", "a]", "[!a]*", "~", "~/a", "a=~", "~root")
	case 7:
		return g.pick("$x", "$y", "${x}", "${#x}", "${x:-d}", "${x:+d}", "${x%a}", "${x/a/b}", "${x:0:1}", "${x^^}", "$?", "$#", "$1", "$@", `"$@"`, "${x[0]}", "${!x}", "$((1+2))", "$((x))", "$[1]")
	case 8:
		return "<(" + g.simple(depth+2) + ")"
	case 9:
		return g.pick(`a\ b`, `\$x`, `\;`, `a\\b`, "a\\\nb", `\#`, "a#b", "a=b", "-x", "--", "!", "%", "@", ":", ",", "^a", "+(a)", "}", "then", "do", "in")
	}
	return g.pick("a", "b", "f", "-n", "x1", "y.z", "A=1")
}

// inside returns a text for the inside of an expansion, a subscript or a here-document,
// where quotes mean different things.
func (g generator) inside() string {
	var b strings.Builder
	for range 1 + g.IntN(5) {
		b.WriteString(g.pick("'", "'", "\"", "\\", "}", "{", "a", "b ", "$(c1)", "$(c2 x)", "`c3`", "'$(c4)'", "\"$(c1)\"", "\\$(c2)", "$x", "${x}", "\\\"", "\\'", "\\}", "$'a'", "$'$(c3)'", "[", "]", "/", "#", "1", "+", ")", "(", "'}'", "\"}\"", "\n"))
	}
	return b.String()
}

// expansion returns a command with such a text in it. Behind it are commands that look like
// quoted text if the quotes are misread.
func (g generator) expansion() string {
	in := g.inside()
	op := g.pick(":-", "-", ":+", "+", "#", "%%", "/a/", "//", "/", ":=", "^", ":", "@", ",,")
	open, end := g.pick("\"", "\"", "", "\"a "), ""
	if open != "" {
		end = "\""
	}
	switch g.IntN(8) {
	case 0:
		return "c1 " + open + "$((" + in + "))" + end
	case 1:
		return "c1 " + open + "${x[" + in + "]}" + end
	case 2:
		return "x[" + in + "]=1"
	case 3:
		return "((" + in + "))"
	case 4:
		return "[[ " + in + " -eq 1 ]]"
	case 5:
		return "{ c2 <<E\n" + g.pick("", "'", "\"") + "${x" + op + in + "}\n" + in + "\nE\n}"
	}
	return "c1 " + open + "${" + g.pick("x", "y") + op + in + "}" + end + g.pick("", "; c2 '}'", "; c3 \"}\"", "; c4 \"'\"", " ; c2 }'\"'")
}

func (g generator) words(depth int) string {
	var b strings.Builder
	for range g.IntN(4) {
		b.WriteString(" " + g.word(depth))
	}
	return b.String()
}

func (g generator) name() string {
	if g.IntN(12) == 0 {
		return g.pick(`c\1`, `"c1"`, "c'2'", "$'c3'", "{c1,a}", "c{1,2}", `"c"3`, "$x", "${x}c1", "\\c1", "c\\\n1", "$(c3)", `$'\x631'`)
	}
	return g.pick("c1", "c2", "c3", "c4")
}

// simple returns one command, with or without a program that starts it.
func (g generator) simple(depth int) string {
	s := g.name() + g.words(depth+1)
	if g.IntN(8) == 0 {
		s = g.pick("x=a ", "x=$y ", "A=1 B=2 ", "x=$(c4) ", "x= ", "x+=a ", "x='a b' ", "PATH=$PATH ", "IFS=a ") + s
	}
	if g.IntN(10) == 0 {
		s += g.pick(" >f", " 2>&1", " <f", " >>f", " &>f", " 2>/dev/null", " <<<w", " <<<$(c3)", " >f 2>&1", " <>f", " >|f", " {fd}>f", " >&2")
	}
	if g.IntN(20) == 0 {
		s = ">f " + s
	}
	if depth < 3 && g.IntN(4) == 0 {
		s = g.wrapped(depth, s)
	}
	return s
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (g generator) wrapped(depth int, s string) string {
	plain := g.pick("c1", "c2", "c3") + g.words(4)
	if depth < 2 && g.IntN(4) == 0 {
		s = g.wrapped(depth+1, s)
	}
	if depth < 2 && g.IntN(6) == 0 {
		plain = g.pick("bash -c ", "sh -c ", "env bash -c ", "timeout 2 sh -c ") + quote(s)
	}
	switch g.IntN(16) {
	case 0:
		return g.pick("bash -c ", "bash -ec ", "sh -c ", "dash -c ", "bash -c -- ", "bash +e -c ", "sh -ec ", "bash -xc ", "bash --norc -c ", "bash -eo pipefail -c ", "bash -euo pipefail -c ", "env -i PATH=$PATH sh -c ") + quote(s) + g.words(4)
	case 1:
		return "eval " + g.pick(quote(s), s)
	case 2:
		return "trap " + quote(s) + g.pick(" EXIT", " 0", " ERR", " DEBUG")
	case 3:
		return g.pick("command ", "command -p ", "builtin command ", "exec ", "exec -c ", "command -- ", "command -v ") + plain
	case 4:
		return "echo a b | xargs " + g.pick("", "-n 1 ", "-I{} ", "-I{} -n1 ", "-0 ", "-i ", "-L1 ", "-d, ", "-n1 -P2 ", "--max-args=1 ", "-t ", "--rep ") + plain + g.pick("", " {}", " a{}b")
	case 5:
		return "find f -maxdepth 0 " + g.pick("-exec ", "-ok ", "-execdir ", "-name f -exec ", "! -name x -exec ", "-name -exec -o -exec ", "-name f -a -exec ", "-true , -exec ") + plain + g.pick(" {} ';'", " \\;", " {} +", " a{}b ';'", " ; ", " ';' -exec c4 {} +")
	case 6:
		return "env " + g.pick("", "A=1 ", "-u A ", "-i PATH=\"$PATH\" ", "-S 'c1 a' ", "-S\"c2 'b c'\" ", "-C . ", "-- ", "-uA B=2 ", "- PATH=$PATH ", "--unset=A ", "--uns A ", "-iv PATH=$PATH ", "A=$x ", "--split-string='-u A c3' ", "$x ") + plain
	case 7:
		return g.pick("timeout 2 ", "timeout -k 1 2 ", "timeout --signal=KILL 2 ", "timeout -s INT 2s ", "timeout --foreground 2 ", "timeout --k=1 2 ", "timeout -v 2 ", "timeout -k1 2 ", "timeout -- 2 ") + plain
	case 8:
		return g.pick("nice ", "nice -n 3 ", "nice -5 ", "nice -n5 ", "nice --adj=2 ", "nohup ", "nohup -- ", "setsid -w ", "setsid --wait ", "stdbuf -oL ", "stdbuf -o L -eL ", "ionice -c 3 ", "ionice -c3 -t ", "taskset 1 ", "taskset -c 0 ", "setpriv --nnp ", "prlimit --nofile=100 ", "prlimit -n100 ", "chrt -b 0 ", "chrt -o 0 ", "unshare ", "unshare --kill-child ") + plain
	case 9:
		return g.pick("flock f ", "flock -n f ", "flock -w 1 f ", "flock --wait=1 f ") + g.pick(plain, "-c "+quote(s), "bash -c "+quote(s))
	case 10:
		return g.pick("time ", "time -p ", "! ", "coproc ", "time -- ", "coproc N ", "! time ", "time ! ") + s
	case 11:
		return "timeout 2 nice " + g.wrapped(depth+1, plain)
	case 12:
		return "git " + g.pick("", "-C . ", "-c a.b=c ", "--no-pager ", "--git-dir=x ", "-p ", "--git-dir x ", "-C. ") + "push" + g.words(4)
	case 13:
		return "c1 | sed " + g.pick("-n ", "-e ", "-E ", "") + quote(g.pick("1e c1", "s/a/b/", "s/.*/c2 x/e", "1,2p;1e c3", "/a/d", "$!N;e", "s|a|c4|ge", "y/a/b/;e c1", "p\ne c2", "1{e c3\n}", "s/a[/]b/c/e", "a x\ne c4", "1i\\\ne c1")) + " f"
	case 14:
		return "awk " + quote(g.pick("BEGIN{system(\"c1 x\")}", "{print $1}", "BEGIN{\"c2\" | getline}", "BEGIN{print 1 | \"c3\"}", "a || b")) + " f"
	default:
		return g.pick("script -qc "+quote(plain)+" /dev/null", "printf '%s\\n' "+quote(s)+" | bash", "bash <<< "+quote(s), "c1 | tee f", "source f", ". ./f", "bash f", "alias c1=c2", "set -- c1 a; \"$@\"", "set -- a", "x='"+plain+"'; $x", "exec 3>f", "shopt -s extglob", "declare x=$(c3)", "export A=1 x=$(c4)", "local y", "let x=1+1", "((x++))", "[[ a == $(c3) ]]", "[[ $x =~ (a|b) ]]", "[ -n \"$(c4)\" ]", "test -v x", "read x <<< 'a b'", "a=(1 $(c3) 'b c')", "a[$(c1)]=b", "unset x", "x=b", "echo $((x=1, $(c4; echo 2)))", "printf -v x %s c1; $x",
			g.interpreted(), g.interpreted(), "read -r x y < f", "unset PATH; c1", "declare -n n=x; n=c1; $n", "shopt -so keyword; c1 A=1", "export PATH=$PATH:p; c1", "PATH=p:$PATH; c1", "mapfile -t a < f; c2", "((x=1)); c1 $x")
	}
}

// compound returns a command that consists of other commands.
func (g generator) compound(depth int) string {
	if depth > 2 {
		return g.simple(depth)
	}
	in := func() string { return g.list(depth + 1) }
	switch g.IntN(16) {
	case 0:
		return "if " + in() + g.pick("; then ", "\nthen ") + in() + g.pick("", "; else "+in(), "; elif "+in()+"; then "+in()) + "; fi"
	case 1:
		return "while c2; do " + in() + "; done"
	case 2:
		return g.pick("for v in a b; do c1 $v; ", "for v in a 'b c' $x; do c2 \"$v\"; ", "for v; do ", "for v in {a,b}; do c3 $v$v; ", "for ((i=0;i<2;i++)); do ", "for v in *; do c1 $v;", "for v in c1 c2; do $v; ", "for v in a b; do for u in $v c; do c1 $u $v; done; ", "for v in a b; do v=c; c1 $v; ") + in() + "; done"
	case 3:
		return "case " + g.word(2) + " in a) " + in() + ";; " + g.pick("b|c", "(x)", "$(c3)", "\"d\"", "[a-z]*") + ") " + in() + g.pick(";;", ";&", ";;&", "") + "\nesac"
	case 4:
		return g.pick("h() { ", "function h { ", "h () { ", "function h() { ") + in() + "; }; h" + g.words(2)
	case 5:
		return "( " + in() + " )" + g.pick("", " >f", " 2>&1")
	case 6:
		return "{ " + in() + "; }" + g.pick("", " >f", " <<<x")
	case 7:
		return "{ " + g.simple(2) + " <<" + g.pick("E\n$(c3 a) `c4` $x \\$(c2) ${x:-$(c1)}\nE", "'E'\n$(c3)\nE", "-E\n\t$(c4)\n\tE", "\"E\"\n`c3`\nE", "E\\F\n$(c3)\nEF") + "\n}"
	case 8:
		return "until c1; do " + in() + "; done"
	case 9:
		return "select v in a; do c1; break; done"
	}
	return g.simple(depth)
}

func (g generator) list(depth int) string {
	s := g.compound(depth)
	for range g.IntN(3) {
		s += g.pick(" && ", " || ", " | ", "; ", "\n", " |& ") + g.compound(depth)
	}
	return s
}

// script returns a script that follows the grammar, and is sometimes cut or changed in one
// place.
func (g generator) script() string {
	s := g.list(0)
	switch g.IntN(12) {
	case 0:
		return s + " # c1"
	case 1:
		return "x=a y='b c'; " + s
	case 2:
		i := g.IntN(len(s) + 1)
		return s[:i] + g.pick("'", "\"", "`", "$", "(", ")", "{", "}", "\\", "\n", "#", ";", " ", "=", "[", "]", "<", "&", "|", "~", "*", "!", "$(", "$((", "<<E\n") + s[i:]
	case 3:
		return s + "\n" + g.list(1) + g.pick("", " &", "; wait")
	}
	return s
}

// soup returns tokens in any order: bash runs the lines before the first line that it
// cannot read.
func (g generator) soup() string {
	var b strings.Builder
	for range 1 + g.IntN(4) {
		for range 1 + g.IntN(6) {
			b.WriteString(g.pick(
				"c1", "c2 a", "c3 -f b", "c4", " ", " ", ";", "; ", "&&", " || ", "|", "\n", "&", "( ", ")", "{ ", "; }", "$(", ")", "`", "'", "\"", "\\", "\\\n",
				"#", " # ", "$x", "\"$x\"", "${x}", "$'a'", "$", "*", "~", "{a,b}", "{}", "[ -f f ]", "[[ a == b ]]", " >f ", "2>&1", " <f", "&>f", "<<<w ", "<(c4)",
				"a=1 ", "b+=2 ", "if ", "then ", "fi", "; fi", "else ", "do ", "; done", "for x in a b", "! ", "time ", "coproc ", "c1 $(c2 \"$(c3)\")", "c1 \"`c2`\"",
				"}", "${y:-z}", "[", "]", "<<E\n", "\nE\n", "<", ">", "e=(c1) ", "a[1]=", "elif ", "done", "case x in x) ", ";; esac", "((", "))", "$((1", "$[1", "h() ",
				"function h ", "bash -c '", "eval \"", "!(c1)", "@(a|b)", "<<-E ", "\t", "[[ ", " ]]", " =~ ", "( #) ", "$((c1) )", "((c2) )", "$( (c3) )", "\x0b", "é",
			))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
