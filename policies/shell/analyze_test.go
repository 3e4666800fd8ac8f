package shell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"belljar.dev/policies/shell"
)

// show returns the commands of a script in one line, with "; " between them. In front of
// each command are the programs that start it. A ~ follows a word of which only the
// beginning is known, a * follows a word that may be several words, (w) marks a wrapper and
// (!) an opaque command.
func show(s shell.Script) string {
	var all []string
	for _, c := range s.Commands {
		var b strings.Builder
		for _, v := range c.Via {
			b.WriteString(v + ">")
		}
		for _, a := range c.Assigns {
			b.WriteString(a.Name + "=" + word(a.Value) + " ")
		}
		for i, w := range c.Words {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(word(w))
		}
		for _, d := range c.Redirects {
			fmt.Fprintf(&b, " %s%s", d.Op, word(d.Target))
		}
		if c.Wrapper {
			b.WriteString(" (w)")
		}
		if c.Opaque != "" {
			b.WriteString(" (!)")
		}
		all = append(all, strings.TrimSpace(b.String()))
	}
	return strings.Join(all, "; ")
}

func word(w shell.Word) string {
	text := w.Text
	if strings.ContainsAny(text, " ;()") || text == "" && w.Certainty == shell.Exact {
		text = "'" + text + "'"
	}
	switch w.Certainty {
	case shell.One:
		text += "~"
	case shell.Any:
		text += "*"
	case shell.Exact, shell.Home:
	}
	return text
}

func TestCommands(t *testing.T) {
	tests := []struct{ script, want string }{
		// Lists, blocks, substitutions.
		{"", ""},
		{"# rm x", ""},
		{"git status", "git status"},
		{"a; b && c || d | e |& f & g\nh", "a; b; c; d; e; f; g; h"},
		{"(a; b); { c; }", "a; b; c"},
		{"! a", "a"},
		{"time -p a; time", "a"},
		{"if a; then b; elif c; then d; else e; fi", "a; b; c; d; e"},
		{"while a; do b; done; until c; do d; done", "a; b; c; d"},
		{"case $(a) in x|$(b)) c;& y) d;; esac", "a; b; c; d"},
		{"select x in a b; do c; done", "c"},
		{"for ((i=0; i<$(a); i++)); do b; done", "a; b"},
		{"f() { a; }; function g { b; }; f", "a; b; f"},
		{"coproc a b; coproc N { c; }", "a b; c"},
		{"a $(b `c`) \"$(d)\" <(e) >(f)", "a * ~ ~ ~; b *; c; d; e; f"},
		{"a ${x:-$(b)} \"${y/$(c)/$(d)}\" ${z:$(e)}", "a * ~ *; b; c; d; e"},
		{"a $((1+$(b))) $[2*`c`]", "a * *; b; c"},
		{"((x=$(a))) ; let y=$(b)", "a; b"},
		{"a[$(b)]=1; c=([$(d)]=$(e) $(f))", "a=1; b; c=''; d; e; f"},
		{"[[ -n $(a) && x == \"$(b)\" ]]", "[[ -n * && x == ~ ]]; a; b"},
		{"[[ x =~ $(a) ]]", "[[ x =~ * ]]; a"},
		{"a <<E\n$(b) `c`\nE\nd", "a; b; c; d"},
		{"a <<'E'\n$(b)\nE\nd", "a; d"},
		{"a <<< \"$(b)\"", "a; b"},
		{"a > $(b)", "a >*; b"},
		{"export X=$(a)", "export X=*; a"},
		{"{ a; } > f; (b) < g", ">f; a; <g; b"},

		// Words.
		{`r\m "a b" 'c;d' e"f"g`, "rm 'a b' 'c;d' efg"},
		{`$'\x72m' $'\162m' $'a\'b' $'rm\x00x'y`, "rm " + "rm a'b rmy"},
		{"r\\\nm", "rm"},
		{"{rm,-rf,/}", "rm -rf /"},
		{"a {1..3} {c..a} x{,y}z {} {b} {d", "a 1 2 3 c b a xz xyz {} {b} {d"},
		{"a {b,{c,d}e} {{f,g}", "a b ce de {f {g"},
		{`a \{b,c} "{d,e}" {f,'g,h'} {$x,i}`, "a {b,c} {d,e} f g,h * i"},
		{"a {1..1000000000} {01..3} {1..9..2}", "a * * *"},
		{"a " + strings.Repeat("{1..100}", 5), "a *"},
		{"a {,} '' \"\"", "a '' ''"},
		{"a *.go b? [cd]e f[ [g x'*'y", "a * b* * f[ [g x*y"},
		{"a ~ ~/b ~c/d x=~/y '~' \\~", "a ~ ~/b ~c/d x=~ ~ ~"},
		{`a $x "$x" pre"$x" "$@" "${y[@]}" "${y[0]}" "${z:-$@}" "$(b)c"`, "a * ~ pre~ * * ~ * ~; b"},
		{"$x a", "* a (!)"},
		{"a$x b", "a* b (!)"},
		{"\"$x\" b", "~ b (!)"},
		{"~/bin/x", "~/bin/x"},
		{"/usr/bin/g?t push", "/usr/bin/g* push (!)"},

		// Assignments and redirections.
		{"A=1 B=$x c", "A=1 B=* c"},
		{"A=1", "A=1"},
		{"a > b 2>&1 < c >> d &> e <> f 2> /dev/null >&g", "a >b <c >>d &>e <>f >/dev/null >&g"},
		{"> a", ">a"},
		{"exec 3<>/dev/tcp/h/80", "exec <>/dev/tcp/h/80"},

		// Loops with known words.
		{"for f in a b; do cat $f \"x $f\"; done", "cat a 'x a'; cat b 'x b'"},
		{"for f in a b; do make; done", "make"},
		{"for f in *; do cat $f; done", "cat *"},
		{"for f in a; do f=$y; cat $f; done", "f=*; cat *"},
		{"for f in a; do read f; cat $f; done", "read f; cat *"},
		{"for f in 'a b'; do cat $f \"$f\"; done", "cat * 'a b'"},
		{"for f in rm; do $f x; done", "* x (!)"},
		{"for f do rm x; done", "rm x"},

		// Programs that start others.
		{"timeout -k 5 --signal=KILL 10 rm x", "timeout -k 5 --signal=KILL 10 rm x (w); timeout>rm x"},
		{"timeout --sig KILL 10 rm x", "timeout --sig KILL 10 rm x (w); timeout>rm x"},
		{"timeout $t rm", "timeout * rm (!)"},
		{"timeout 5 nice -n 3 nohup rm x", "timeout 5 nice -n 3 nohup rm x (w); timeout>nice -n 3 nohup rm x (w); timeout>nice>nohup rm x (w); timeout>nice>nohup>rm x"},
		{"nice -5 rm x", "nice -5 rm x (w); nice>rm x"},
		{"A=1 nice rm x", "A=1 nice rm x (w); nice>A=1 rm x"},
		{"/usr/bin/env -i -u A B=1 rm x", "/usr/bin/env -i -u A B=1 rm x (w); env>B=1 rm x"},
		{"env -S 'rm -rf' /", "env -S 'rm -rf' /; env>rm -rf /"},
		{"env -S'A=1 rm \"a b\"' /", "env '-SA=1 rm \"a b\"' /; env>A=1 rm 'a b' /"},
		{"env --split-string='-i rm x'", "env '--split-string=-i rm x'; env>rm x"},
		{"env -C /x rm y", "env -C /x rm y; env>rm y"},
		{"env $x rm y", "env * rm y (!)"},
		{"env", "env"},
		{"env --unknown rm", "env --unknown rm (!)"},
		{"sudo -u bob -E A=1 rm x", "sudo -u bob -E A=1 rm x; sudo>A=1 rm x"},
		{"sudo -i rm x", "sudo -i rm x (!); sudo>rm x"},
		{"sudo -l", "sudo -l"},
		{"sudo A=1 -u bob rm x", "sudo A=1 -u bob rm x; sudo>A=1 rm x"},
		{"./timeout 5 rm x; /usr/bin/timeout 5 rm y", "./timeout 5 rm x; timeout>rm x; /usr/bin/timeout 5 rm y (w); timeout>rm y"},
		{"chrt -b rm x", "chrt -b rm x (!)"},
		{"unshare -mR /r rm x", "unshare -mR /r rm x; unshare>rm x"},
		{"runuser -u bob rm x; runuser bob -c 'rm y'", "runuser -u bob rm x; runuser>rm x; runuser bob -c 'rm y' (!)"},
		{"find . -name -exec -exec rm {} \\;", "find . -name -exec -exec rm {} ';'; find>-exec rm ~; find>rm ~"},
		{"doas -u b rm x", "doas -u b rm x; doas>rm x"},
		{"su bob -c x", "su bob -c x (!)"},
		{"su -c 'rm x' bob", "su -c 'rm x' bob; su>rm x"},
		{"xargs -0 -n 5 rm -f", "xargs -0 -n 5 rm -f; xargs>rm -f *"},
		{"xargs -I{} mv {} a{}b", "xargs -I{} mv {} a{}b; xargs>mv ~ a~"},
		{"xargs", "xargs; xargs>echo *"},
		{"xargs sh -c 'rm x'", "xargs sh -c 'rm x'; xargs>sh -c 'rm x' * (w); xargs>sh>rm x"},
		{"find . -name x -exec rm {} + -exec cat -- {}x \\;", "find . -name x -exec rm {} + -exec cat -- {}x ';'; find>rm *; find>cat -- ~"},
		{"find . -exec sh -c 'rm \"$1\"' _ {} ';'", "find . -exec sh -c 'rm \"$1\"' _ {} ';'; find>sh -c 'rm \"$1\"' _ ~ (w); find>sh>rm ~"},
		{"find $x -name y", "find * -name y (!)"},
		{"find \"$x\" -name y", "find ~ -name y"},
		{"watch -n 1 rm x", "watch -n 1 rm x; watch>rm x"},
		{"flock -n /l rm x; flock /l -c 'rm y'", "flock -n /l rm x; flock>rm x; flock /l -c 'rm y'; flock>rm y"},
		{"busybox rm x; busybox sh -c 'rm y'", "busybox rm x; busybox>rm x; busybox sh -c 'rm y'; busybox>sh -c 'rm y' (w); busybox>sh>rm y"},
		{"chroot --userspec=a /r rm x", "chroot --userspec=a /r rm x; chroot>rm x"},
		{"chroot /r", "chroot /r (!)"},
		{"unshare -rn rm x; nsenter -t 1 -m rm y", "unshare -rn rm x; unshare>rm x; nsenter -t 1 -m rm y; nsenter>rm y"},
		{"setpriv --reuid 0 rm x", "setpriv --reuid 0 rm x; setpriv>rm x"},
		{"taskset -c 0 rm x; chrt -b 0 rm y", "taskset -c 0 rm x (w); taskset>rm x; chrt -b 0 rm y (w); chrt>rm y"},
		{"stdbuf -oL rm x; setsid -w rm y; ionice -c 3 rm z", "stdbuf -oL rm x (w); stdbuf>rm x; setsid -w rm y (w); setsid>rm y; ionice -c 3 rm z (w); ionice>rm z"},
		{"/usr/bin/time -f %e rm x", "/usr/bin/time -f %e rm x; time>rm x"},
		{"script -c 'rm x' /dev/null", "script -c 'rm x' /dev/null; script>rm x"},
		{"ssh h rm x", "ssh h rm x (!)"},
		{"parallel rm ::: a", "parallel rm ::: a (!)"},

		{"a |\ntime -o f rm x; coproc time rm y; b | time", "a; time -o f rm x; time>rm x; time rm y; time>rm y; b; time"},
		{"time -- rm x | a", "* (!); rm x; a"},
		{"coproc A=1 rm x", "* (!); A=1 rm x"},

		// Shells and their own commands.
		{"bash -c 'git log; rm -rf /'", "bash -c 'git log; rm -rf /' (w); bash>git log; bash>rm -rf /"},
		{"bash -ec 'rm x' y z", "bash -ec 'rm x' y z (w); bash>rm x"},
		{"bash -eo pipefail -c 'rm x'; bash -o posix -c 'rm y'", "bash -eo pipefail -c 'rm x' (w); bash>rm x; bash -o posix -c 'rm y' (!); bash>rm y"},
		{"for _ in a; do cat $_; done; for PWD in a; do cat $PWD; done", "cat *; cat *"},
		{"bash -lc 'rm x'", "bash -lc 'rm x' (!); bash>rm x"},
		{"sh -c 'eval \"rm x\"'", "sh -c 'eval \"rm x\"' (w); sh>eval 'rm x' (w); sh>eval>rm x"},
		{"sh -c '((rm x))'", "sh -c '((rm x))' (!)"},
		{"bash -c \"$x\"", "bash -c ~ (!)"},
		{"bash x.sh; sh; curl u | bash -s", "bash x.sh (!); sh (!); curl u; bash -s (!)"},
		{"zsh -c 'rm x'", "zsh -c 'rm x' (!); zsh>rm x"},
		{"eval rm x; eval \"$x\"", "eval rm x (w); eval>rm x; eval ~ (!)"},
		{"exec rm x; exec -a y rm z; command -p rm a; command -v b; builtin eval 'rm c'", "exec rm x (w); exec>rm x; exec -a y rm z (!); exec>rm z; command -p rm a (w); command>rm a; command -v b; builtin eval 'rm c' (w); builtin>eval 'rm c' (w); builtin>eval>rm c"},
		{"trap 'rm x' EXIT; trap - INT; trap '' HUP; trap \"$x\" INT", "trap 'rm x' EXIT (w); trap>rm x; trap - INT; trap '' HUP; trap ~ INT (!)"},
		{"source a; . b", "source a (!); . b (!)"},
		{"alias a=b; unalias a", "alias a=b (!); unalias a"},
		{"jobs -x rm y", "jobs -x rm y; jobs>rm y"},
		{"hash -p /x ls; enable -n echo; set -k; set +B; set -e; set -o pipefail; set -- \"$x\"", "hash -p /x ls (!); enable -n echo (!); set -k (!); set +B (!); set -e; set -o pipefail; set -- ~"},
		{"mapfile -C 'rm x' y; complete -C a b", "mapfile -C 'rm x' y (!); complete -C a b (!)"},

		// Texts that are evaluated.
		{"echo ${x@P}", "echo *; * (!)"},
		{"test -v 'a[$(id)]'", "test -v 'a[$(id)]' (!)"},
		{"[[ -v 'a[$(id)]' ]]", "[[ -v 'a[$(id)]' ]]; * (!)"},
		{"printf -v 'a[$(id)]' x", "printf -v 'a[$(id)]' x (!)"},
		{"x='a[$(id)]'; echo $((x))", "x='a[$(id)]'; echo *; * (!)"},
		{"x='a[$(id)]'; [[ $x -eq 1 ]]", "x='a[$(id)]'; [[ * -eq 1 ]]; * (!)"},
		{"n=$(wc -l < f); echo $((n+1))", "n=*; wc -l <f; echo *"},
		{"echo @($(id)) !(a)", "echo * *; * (!)"},
		{"BASH_ENV=x bash -c ls", "BASH_ENV=x bash -c ls (!); bash>BASH_ENV=x ls; * (!)"},
		{"PS4='$(id)'; set -x", "PS4='$(id)'; * (!); set -x"},

		// Other languages.
		{"python3 -c 'x'; python3 x.py -c; python3 -m pytest; python3 -V; echo | python3", "python3 -c x (!); python3 x.py -c; python3 -m pytest; python3 -V; echo; python3 (!)"},
		{"perl -ne p; node -e x; ruby x.rb; node --version", "perl -ne p (!); node -e x (!); ruby x.rb; node --version"},
		{"awk '{print $1}' f; awk 'BEGIN{system(\"id\")}'; awk \"$x\"", "awk '{print $1}' f; awk 'BEGIN{system(\"id\")}' (!); awk ~ (!)"},
		{"sed -n '1,20p' f; sed -i.bak -e 's|a|b|g' -e '$d' f; sed -E 's/(x)[0-9]+/\\1/;/y/!d' f; sed f -n 5p", "sed -n 1,20p f; sed -i.bak -e s|a|b|g -e $d f; sed -E 's/(x)[0-9]+/\\1/;/y/!d' f; sed f -n 5p (!)"},
		{"sed '1e id' f; sed s/a/id/e f; sed 's/a/b/;e id' f; sed \"s/a/$x/\" f; sed -f x f; sed f -e '1e id'; sed 'p;1!e id'; sed 'w x'", "sed '1e id' f (!); sed s/a/id/e f (!); sed 's/a/b/;e id' f (!); sed s/a/~ f (!); sed -f x f (!); sed f -e '1e id' (!); sed 'p;1!e id' (!); sed 'w x' (!)"},

		// The options and subcommands of git.
		{"git -C /r push -f", "git -C /r push -f; git>git push -f"},
		{"git --no-pager log", "git --no-pager log (w); git>git log"},
		{"git -c core.pager=x log", "git -c core.pager=x log (!); git>git log"},
		{"git -c 'alias.x=!rm y' x", "git -c 'alias.x=!rm y' x (!); git>rm y; git>git x"},
		{"git bisect run rm x; git rebase -x 'rm y' a; git submodule foreach 'rm z'", "git bisect run rm x; git>rm x; git rebase -x 'rm y' a; git>rm y; git submodule foreach 'rm z'; git>rm z"},
	}
	for _, tt := range tests {
		s, err := shell.Analyze(tt.script)
		if got := show(s); got != tt.want || err != nil {
			t.Errorf("%.200q:\n got %s, %v\nwant %s", tt.script, got, err, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		script string
		kind   shell.Kind
		listed string
	}{
		{strings.Repeat("a", shell.MaxText+1), shell.TooLong, ""},
		{strings.Repeat("$(", 200_000), shell.TooLong, ""},
		{strings.Repeat("$(", 500_000), shell.TooLong, ""},
		{strings.Repeat("((", 500_000), shell.TooLong, ""},
		{strings.Repeat("{a,", 350_000), shell.TooLong, ""},
		{strings.Repeat("`b ", 350_000), shell.TooLong, ""},
		{strings.Repeat("if ", 350_000), shell.TooLong, ""},
		{strings.Repeat("\"$(", 350_000), shell.TooLong, ""},
		{strings.Repeat("$(", 3000), shell.TooDeep, ""},
		{strings.Repeat("((", 3000), shell.TooDeep, ""},
		{strings.Repeat("$(\")\"", 10_000), shell.TooDeep, ""},
		{strings.Repeat("if ", 20_000), shell.TooDeep, ""},
		{"((" + strings.Repeat("!", 60_000) + "1))", shell.TooDeep, ""},
		{"$((" + strings.Repeat("- ", 30_000) + "1))", shell.TooDeep, ""},
		{"[[ " + strings.Repeat("! ", 30_000) + "a ]]", shell.TooDeep, ""},
		{strings.Repeat("time ", 12_000) + "a", shell.TooDeep, ""},
		{strings.Repeat("a;", shell.MaxCommands+1), shell.TooMany, ""},
		{"git\x00 log", shell.Foreign, ""},
		{"ls\r-l", shell.Foreign, ""},
		{"rm x\ngit log 'y", shell.Syntax, "rm x"},
		{"git log &&& rm -rf /", shell.Syntax, ""},
		{"git log )", shell.Syntax, ""},
		{"git log >", shell.Syntax, ""},
	}
	for _, tt := range tests {
		s, err := shell.Analyze(tt.script)
		var e *shell.Error
		if !errors.As(err, &e) || e.Kind != tt.kind {
			t.Errorf("%.40q: got %v, want kind %d", tt.script, err, tt.kind)
			continue
		}
		if got := show(s); tt.kind == shell.Syntax && got != tt.listed {
			t.Errorf("%.40q: got %s, want %s", tt.script, got, tt.listed)
		}
	}
}

// The place of nesting that only the parser sees is where the parser has read to, not the
// end of the text.
func TestPlaceOfNesting(t *testing.T) {
	before := strings.Repeat("true\n", 1000)
	for _, nesting := range []string{"if ", "time "} {
		_, err := shell.Analyze(before + strings.Repeat(nesting, 8000))
		var e *shell.Error
		if !errors.As(err, &e) || e.Kind != shell.TooDeep || e.Offset <= len(before) || e.Offset > len(before)+4096 {
			t.Errorf("%q: got %v, want TooDeep soon after byte %d", nesting, err, len(before))
		}
	}
}

func TestParses(t *testing.T) {
	for text, want := range map[string]bool{
		"":                        true,
		"echo a\ncat <<E\nb\nE":   true,
		"true\n)":                 false,
		":;}; echo a; f() { :":    false,
		"cat <<E\nb":              false,
		"echo $(":                 false,
		"echo a\r":                false,
		strings.Repeat("(", 1000): false,
	} {
		if got := shell.Parses(text); got != want {
			t.Errorf("Parses(%.20q) = %v, want %v", text, got, want)
		}
	}
}
