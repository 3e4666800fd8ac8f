package shell_test

import (
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/shell"
)

// tricky are scripts in which a command is easily overlooked. The programs are c1 to c4, as
// in the random scripts.
//
//nolint:dupword // some commands start themselves
var tricky = []string{
	// Quotes that do not quote where they stand.
	`echo "${x:-'$(c1)'}"`,
	`echo "${x:-'` + "`c1`" + `'}"`,
	`echo ${x:-'$(c1)'}`,
	`echo "${x:+"$(c1)"}"; x=1; echo "${x:+'$(c2)'}"`,
	`x=a; echo "${x/'$(c1)'/b}" "${x/a/'$(c2)'}" "${x#'$(c3)'}" "${x%%'$(c4)'}"`,
	`x=a; echo ${x/'$(c1)'/b} ${x/a/'$(c2)'} ${x#'$(c3)'}`,
	`((x['$(c1)']=1))`,
	`((x["$(c1)"]=1))`,
	`echo $((x['$(c1)']))`,
	`echo $(( '$(c1)' ))`,
	`echo $(( "$(c1)" + 1 ))`,
	`echo $[ '$(c1)' ]`,
	`let 'x[$(c1)]=1'`,
	`let x='$(c1)'`,
	`x['$(c1)']=1`,
	`x[$(c1)]=1; x["$(c2)"]=2`,
	`declare -A m; m['$(c1)']=1; m["$(c2)"]=2; echo ${m['$(c3)']} ${m["$(c4)"]}`,
	`echo ${x['$(c1)']}`,
	`echo "${x['$(c1)']}"`,
	`x=(['$(c1)']=2)`,
	"cat <<E\n'$(c1)' \"`c2`\" ${x:-'$(c3)'} \\$(c4)\nE",
	"cat <<'E'\n$(c1)\nE\ncat <<\\E\n$(c2)\nE\ncat <<E''\n$(c3)\nE",
	"cat <<E\n${x:-\"$(c1)\"} $(( $(c2) ))\nE",
	"cat <<E\n\\`c1\\` `c2`\nE",
	"cat <<\"E E\"\n$(c1)\nE E\nc2",
	"cat <<E; c1 <<F\n$(c2)\nE\n$(c3)\nF\nc4",
	"cat <<$(c1)\nx\n$(c1)\nc2",
	"cat <<-E\n\t$(c1)\n\tE\nc2",
	"x=$(cat <<E\n$(c1)\nE\n); c2",
	"echo \"$(cat <<E\n$(c1)\nE\n)\"",
	"`cat <<E\nc1\nE\n`",
	"cat <<E\n$(c1\nE\nc2)\nE",
	"c1 <<E &&\nx\nE\nc2",

	// Texts that look like comments and are not, and the other way round.
	"c1 # c2\nc3 a#b; c4 #",
	"c1 $(c2 # )\n) ; c3",
	"echo `c1 # x`; c2",
	"echo $((1 # 2)); c1",
	"echo $((16#ff)) ${#x} ${x#y}; c1",
	"[[ a == a#b ]] && c1",
	"case a in #) c1\na) c2;; esac",
	"c1 \\\n# c2",
	"c1 a\\\n#b; c2",
	"{ # }\nc1; }",
	"x=( # )\na ); c1",

	// Words that look like keywords and are not.
	"echo if then; c1 do done; c2 } {; c3 esac",
	"x=if; c1",
	"\\if c1; c2", "'if'; c1",
	">f if; c1",
	"c1 | if c2; then c3; fi",
	"case in in in) c1;; esac",
	"for in in a; do c1 $in; done",
	"for x in do; do c1 $x; done",
	"case $x in esac; c1",
	"select x in a; do c1; break; done <<< 1",
	"function if { c1; }; \\if; c2",
	"in() { c1; }; in",
	"c1 & c2 && c3 & wait",
	"! ! c1; ! c2 | ! c3",
	"time; c1",
	"time -p -- c1", "time -p c1 | c2",
	"if ! c1; then c2; fi; while ! c1; do break; done",
	"[ a ] && c1 || c2; [[ a ]] || c3",
	"((1)) && c1; ((0)) || c2",
	"(( (1) )) && c1; ( (c2) ); ((c3); c4)",
	"$( (c1) ); $((1)); echo $( (c2); c3)",
	"echo $( ( c1 ) | c2 )",
	"echo $(( (1) + (2) ))$(c1)",
	"f() (c1); f; g() if c2; then :; else c3; fi; g",
	"f() { c1; } >f; f", "f() { c1 $1; }; f $(c2)",
	"f()\n{\nc1\n}\nf",
	"function f\n{ c1; }\nf", "function f () ( c1 ); f",
	"{ c1;}; {c2; }; c3", "{ c1\n}",
	"if c1; then c2; fi; if c3\nthen c4\nfi",
	"until c1; do c2; done",
	"while c2; do :; done < <(c1)",
	"c1 > >(c2) 2> >(c3); wait",
	"exec 3< <(c1); c2",
	"coproc { c1; }; coproc X { c2; }; wait",
	"coproc c1; wait", "coproc c1 a b", "coproc X=1 c1", "coproc if c1; then c2; fi", "coproc while c2; do :; done", "coproc (c1)", "coproc X (c1)", "coproc >f c1", "coproc ! c1", "coproc c1 | c2",

	// Words.
	"c{1,2} x", "{c1,c2}", "{c1,}", "x={c1,c2}; c3", "c1 {x,$(c2)}", "c1 {$(c2),$(c3 a,b)}", "{c1,a b}", "{'c1',a}", "\"c\"{1,2}", "c1 \"{a,b}\"", "c1 {a..c..2} {5..1..2}", "c1 a{,b,}c {x,{y,z},w}v", "c1 {a,b}{c,d{e,f}}", "c1 {a\\,b,c}", "c1 {a,b\\}}", "c1 {{a,b},c", "c1 {a}{b,c}", "c1 ${x}{a,b}", "c1 $x{a,b}", "c1 {a,b}$x", "c1 {-1..1} {-01..2}", "c1 {Z..a}", "c1 {a..1}", "c1 {1..2a}", "c1 {1..}", "c1 {..}", "c1 {1..3,4}", "c1 {,a}{b,}", "c1 }{a,b}{", "c1 {a,}{,}",
	`$'c1' $'\x63'1 $'c\061' $'c\u0031' "c"'1' \c\1 c"1"`,
	`$'\x63\x31' a`, `$'c1\0x' y`, `$'c1'$'\x00'z`, `c1 $'a\'b' $'\cx' $'\c\\' $'\8' $'\777' $'\x'`,
	`$"c1" a`, `c1 $"x"`, `c1 "\a\$\"\\"`, `c1 '\'`, "c1 'a\nb' \"c\\\nd\"", "c1 a\\\nb", "c\\\n1 a", "c1\\\n a", "\\c1", "c1 \\", "c1 \\\n",
	"c1 \"`echo \\\"c2\\\"`\"", "c1 `echo \\`c2\\``", "c1 \"`c2 \"a b\"`\"", "c1 `c2 \\$x '\\\\'`", "`echo c1` a", "c1 `echo '\\`c2\\`'`",
	"c1 $(echo ')' ; c2)", "c1 $(case a in a) c2;; esac)", "c1 $(case a in (a) c2;; esac)", "c1 \"$(echo \")\"; c2)\"", "c1 $(# )\nc2)",
	"x=c1; $x", "x='c1 a'; $x", "x='c1;c2'; $x; eval $x", "set -- c1 a; \"$@\"; $*; $1", "a=(c1 b); \"${a[@]}\"; ${a[*]}", "x=c; ${x}1", "${x:-c1} a", "${x:=c1}; $x", "${x+c1}", "x=1; ${x+c1} b", "\"${x:-c1}\" a", "$empty c1 a", "\"\" c1", "$empty$empty c1", "$(:) c1 a", "`:` c2",
	"c?", "/*/c1", "c[1]", "c1 [a", "~/c1; c1 ~ ~/x x=~", "c1 *", "c1 f*", "c1 ?",
	"IFS=1; x=c21a; $x", "IFS=; c1 $x",

	// Variables and files in front.
	"A=1 c1", "A=1 B=2 c1 C=3", "A= c1", "A+=1 c1", "A=(1) ; c1", "a[1]=x; c1", "A=$(c2) c1", "A=1 $(c2) c1", "A=1 >f c1", ">f A=1 c1", "<f c1", "2>f c1 a 3<f b", "{fd}>f c1", "c1 {fd}>f a", "c1 2 >f", "c1 2>f", "c1 a2>f", "c1 >f>g", "c1>f", "c1&>f", "c1&>>f a", "c1 >&f a", "c1 >&2 a", "c1 2>&1 a", "c1 <&- a", "c1 >& f a", "c1 >|f a", "c1 <>f a", "c1 <<<a b", "c1 <<< $(c2) b", "c1 <<<'$(c2)'",
	"A=1 if; c1", "A=1 f() { c1; }; f", "export A=1 c1; c2", "export A=$(c1)", "readonly B=$(c1) C=`c2`", "declare -a D=($(c1) $(c2))", "local x=$(c1)", "typeset x=\"$(c1)\"", "declare $(echo x=1) y=$(c1)", "export \"A=$(c1)\"", "A=1 export B=$(c1)", "declare -f", "declare -p x; c1",

	// Programs that start others.
	"env c1", "env -i c1", "env -- c1", "env A=1 -- c1", "env - A=1 c1", "env -S c1", "env -S 'c1 a' b", "env -vS 'c1 a'", "env -S 'A=1 c1'", "env -S '-u A c1'", "env -S'-S\"c1 a\"'", "env -uA c1", "env -u A -C . c1", "env --chdir=. c1", "env --ch . c1", "env -iu A PATH=$PATH c1", "env -0 c1", "env $e c1", "env \"$e\" c1", "env A=1 $e c1", "env A=$x c1", "env a=b=c c1", "env =x c1", "env '' c1",
	"timeout 1 c1", "timeout -s 9 1 c1", "timeout -s9 1 c1", "timeout -fs 9 1 c1", "timeout -vk1 1 c1", "timeout --kill-after 1 1 c1", "timeout 1 -- c1", "timeout -- 1 c1", "timeout 1 timeout 1 c1", "timeout 1 bash -c 'c1; c2'", "timeout 1s c1 --version", "timeout .5 c1", "timeout $e 1 c1", "timeout 1 $e c1", "timeout 1 A=1 c1",
	"nice c1", "nice -n 1 c1", "nice -n1 c1", "nice -1 c1", "nice --adjustment 1 c1", "nice -n 1 -n 2 c1", "nice nice nice c1", "nohup c1", "nohup -- c1", "setsid c1; c2", "setsid -w c1", "setsid -fw c1; c2", "stdbuf -o0 c1", "stdbuf -o 0 c1", "stdbuf --output=0 c1",
	"c1 | xargs c2", "echo c1 | xargs", "echo a | xargs -I% c1 % x%y", "echo a | xargs -i c1 {}", "echo a | xargs -iX c1 X", "echo a b | xargs -n1 c1", "echo a | xargs -n 1 -I{} c1 {}", "echo 'c1 a' | xargs env", "echo c1 | xargs -I{} {} a", "echo c1 | xargs -I{} sh -c {}", "echo a | xargs sh -c 'c1 \"$@\"' x", "xargs -a f c1", "xargs -af c1", "xargs --arg-file=f c1", "xargs < f timeout 1", "echo a | xargs -- c1", "echo a | xargs -P2 -L1 c1 b", "echo a | xargs -t -r -x c1", "echo a | xargs -e c1", "echo a | xargs -eX c1", "echo a | xargs -l c1", "echo a | xargs -l1 c1", "echo a | xargs -E X c1", "echo a | xargs -d '\\n' c1", "echo a | xargs -s 100 c1",
	"find f -exec c1 \\;", "find f -exec c1 {} ';' -exec c2 {} +", "find f -exec c1 a{}b {} ';'", "find f -name -exec -exec c1 {} \\;", "find f -exec c1 -exec ';'", "find f -exec c1 ; c2", "find f -exec sh -c 'c1 $1' x {} ';'", "find f -exec env c1 {} ';'", "find f \\( -exec c1 {} \\; -o -exec c2 {} + \\)", "find f $e -exec c1 ';'", "find f -exec $e c1 ';'", "find f -exec c1 {} + a", "find f -exec c1 + ';'", "find f -exec c1 {} a + ';'", "find f -execdir c1 {} +", "x=-exec; find f $x c1 {} ';'", "x=-exec; find f \"$x\" c1 {} ';'", "x='-exec c1 ;'; find f $x", "find f -e{xec,xec} c1 {} ';'", "find f -exec {c1,a} ';'", "find f '-exec' c1 '{}' ';'",
	"sh -c c1", "sh -c 'c1 $0' a", "bash -c -- c1", "bash -c -e c1", "bash -ce c1", "bash -e -c c1", "bash +x -c c1", "bash -c 'c1' c2", "bash -c", "bash -c ''", "bash -c $'c1\\nc2'", "bash -c \"c1 $(c2)\"", "bash -c 'bash -c \"bash -c c1\"'", "bash -c 'eval \"$0\"' c1", "bash -c '\"$@\"' x c1 a", "bash --norc --noprofile -c c1", "bash --rcfile f -c c1", "bash -O extglob -c c1", "bash -o pipefail -c c1", "bash +o pipefail -c c1", "bash -euxo pipefail -c c1", "bash --posix -c c1", "bash -s <<< c1", "bash <<E\nc1\nE", "bash f", "bash < f", "bash -x f", "sh f", ". ./f", "source ./f a", "bash <(echo c1)", "echo c1 | bash -s a", "bash -lc c1", "bash -ic c1",
	"sh -c '((c1))'", "sh -c '[[ a ]] && c1'", "sh -c 'c1 &> f'", "sh -c 'c1 {a,b}'", "sh -c $'c1 $\\'\\\\x63\\''", "sh -c 'c1 <(c2)'", "sh -c 'function f { c1; }; f'", "sh -c 'c1 |& c2'", "sh -c 'time c1'", "sh -c 'c1 <<< c2'", "sh -c 'select x in a; do c1; done'", "sh -c 'x=(c1)'", "sh -c 'a+=c1'", "sh -c 'c1 $\"a\"'", "sh -c 'c1 >&f'", "dash -c 'coproc c1'", "sh -c 'let c1'", "sh -c 'f() { local x=$(c1); }; f'", "sh -c 'echo ${x/c1/$(c2)}'", "sh -c 'for ((;;)); do c1; break; done'", "sh -c 'export A=$(c1); c2 $A'", "sh -c 'echo $[ $(c1) ]'", "sh -c '! c1'", "sh -c 'c1 & wait'", "sh -c 'trap c1 EXIT'", "sh -c 'command c1; exec c2'", "sh -c 'c1 ;; c2'",
	"eval c1", "eval 'c1;' c2", "eval \"c1 'a b'\" c", "eval eval eval c1", "eval '$x'; x=c1; eval '$x'", "eval -- c1", "eval ''", "eval '\n#' c1", "eval $'c1\\n' c2", "eval 'c1 \\' b", "eval \"c1 \\\"a\\\"\"", "eval echo \\$\\(c1\\)", "eval {c1,c2}", "eval 'f() { c1; }'; f",
	"trap c1 EXIT", "trap 'c1 a' 0", "trap -- c1 EXIT", "trap 'c1' DEBUG; :", "trap c1 ERR; false", "trap 'c1' RETURN; f() { :; }; f", "trap \"c1 $x\" EXIT", "trap 'trap c1 EXIT' EXIT", "trap c1 EXIT INT; trap - INT", "trap $'c1\\nc2' EXIT", "(trap c1 EXIT)", "trap '$x' EXIT; x=c1",
	"exec c1", "(exec c1 a)", "exec -a x c1", "(exec -l c1)", "(exec -c c1)", "exec -- c1", "exec >f; c1", "exec 3>f c1", "(exec env c1)", "command c1", "command -- c1", "command -p c1", "command -v c1", "command command c1", "command eval c1", "builtin eval c1", "builtin command c1", "builtin -- eval c1", "command -p env c1", "command exec c1", "builtin exec c1", "\\command c1", "\"command\" c1", "command . ./f", "builtin source ./f",
	"alias c1=c2; c1", "shopt -s expand_aliases; alias x=c1\nx", "shopt -s extglob\nc1 !(a) @(b|$(c2))", "shopt -s extglob; [[ a == @(a|$(c1)) ]]", "c1 @(a)", "case a in @(a|$(c1))) c2;; esac", "[[ a == @($(c1)) ]]", "[[ a == +(`c1`) ]]", "[[ a =~ $(c1) ]]", "[[ a =~ ($(c1)) ]]", "[[ a =~ [$(c1)] ]]", "[[ a < $(c1) ]]", "[[ (-n $(c1)) || a ]]", "[[ -f <(c1) ]]", "[[ ! $(c1) ]]", "[[ $(c1) -eq 1 ]]", "[[ a[$(c1)] -eq 1 ]]", "[[ 'a[$(c1)]' -eq 1 ]]", "[[ -v a[$(c1)] ]]", "[[ -v 'a[$(c1)]' ]]", "test -v 'a[$(c1)]'", "[ -v 'a[$(c1)]' ]", "test -v a['$(c1)']", "printf -v 'a[$(c1)]' x", "printf -va[\\$\\(c1\\)] x", "read 'a[$(c1)]' <<< x", "read -a a 'b[$(c1)]' <<< x", "unset 'a[$(c1)]'", "declare 'a[$(c1)]=1'", "export 'a[$(c1)]'", "local 'a[$(c1)]=1'", "f() { local 'a[$(c1)]=1'; }; f", "x='a[$(c1)]'; echo $((x))", "x='a[$(c1)]'; ((x))", "x='a[$(c1)]'; ((y=x))", "x='a[$(c1)]'; let x", "x='a[$(c1)]'; [[ x -eq 1 ]]", "x='a[$(c1)]'; echo ${y[x]}", "x='a[$(c1)]'; echo ${y:x}", "x='a[$(c1)]'; y[x]=1", "x='a[$(c1)]'; declare -i y; y=x", "declare -i y; y='a[$(c1)]'", "declare -i y='a[$(c1)]'", "x='a[$(c1)]'; echo ${!x}", "declare -n r='a[$(c1)]'; echo $r", "x='a[$(c1)]'; for ((i=x;i<1;i++)); do :; done", "x=$'a\\x5b$(c1)]'; echo $((x))", "x=a\\[\\$\\(c1\\)]; echo $((x))", "x=\"a[\\$(c1)]\"; echo $((x))", "mapfile -t 'a[$(c1)]' < f", "getopts a 'b[$(c1)]' -a", "wait -n -p 'a[$(c1)]'", "x='$(c1)'; echo ${x@P}", "x='\\$(c1)'; echo \"${x@P}\"", "PS4='$(c1)'; set -x; :", "PS4='$(c1)' bash -xc ':'", "BASH_ENV=./f bash -c :", "ENV=./f sh -c :", "export BASH_ENV=./f; bash -c :", "declare -x BASH_ENV=./f; bash -c :", "env BASH_ENV=./f bash -c :", "read BASH_ENV <<< ./f; export BASH_ENV; bash -c :", "printf -v BASH_ENV ./f; export BASH_ENV; bash -c :", "for BASH_ENV in ./f; do export BASH_ENV; bash -c :; done", "${BASH_ENV:=./f}; export BASH_ENV; bash -c :", "PROMPT_COMMAND=c1 bash -ic :", "BASH_ALIASES[x]=c1; shopt -s expand_aliases\nx", "BASH_CMDS[x]=$PWD/../bin/c1; x", "hash -p ../bin/c1 x; x a", "f() { c1; }; export -f f; bash -c f", "env 'BASH_FUNC_f%%=() { c1; }' bash -c f", "command_not_found_handle() { c1 \"$@\"; }; nonexistent a", "mapfile -c1 -C c1 < f", "mapfile -C 'c1 x' -c 1 < f", "compgen -C c1", "compgen -W '$(c1)'", "complete -C c1 x", "fc -s", "jobs -x c1 a", "set -o keyword; c1 A=1 a", "set -k; c1 A=1 a", "set +B; c1 {a,b}", "set -f; c1 *", "set -o noglob; c1 *", "shopt -s nullglob; c1 z*", "shopt -s failglob; c1 z*", "shopt -s dotglob globstar; c1 ** */f", "set -- a b; c1 $1 $@ \"$*\" ${@:1}", "enable -n echo; echo a", "unset -f x; c1",
	// Marks in words that are not known in full.
	"echo a b | xargs -i c1 x1 a{}*b", "x='}'; echo b | xargs -I{} c1 \"a{$x\"", "x='}'; find f -exec c1 \"a{$x\" \\;", "echo b | xargs -I{} c1 ~/{}", "echo b | xargs -I/ c1 ~/x", "find f -exec c1 ~/{} \\;", "x='b'; echo c | xargs -Iabc c1 ab\"$x\" ab*",
	// A loop in which a text is run that may set its variable.
	"for v in a b; do timeout 2 nice trap 'c1 x' DEBUG; c2 $v; done", "for v in a b; do env eval c1; c2 $v; done", "for v in a b; do for u in c d; do env eval c1; c2 $v $u; done; c3 $v; done",
	"for v in a b; do while c3 $v && [ $v != c4 ]; do {eval,v=c4}; done; done",
	"flock f c1", "flock f -c c1", "flock -c c1 f", "flock -x f c1 a", "flock -w1 f c1", "flock -n -E 3 f c1", "flock f sh -c c1", "flock f --command c1", "script -qc c1 /dev/null", "script -q -c 'c1 a' /dev/null", "script /dev/null -qc c1", "script -q /dev/null <<< c1", "taskset 1 c1", "taskset -c 0 c1", "taskset -ac 0 c1", "chrt -b 0 c1", "chrt -o 0 c1", "ionice -c3 c1", "ionice -c 3 -n 1 c1", "prlimit -n100 c1", "prlimit --nofile=100 c1", "prlimit --nofile 100 c1", "unshare c1", "unshare -u c1", "unshare -mu -- c1", "unshare -ufm c1", "setpriv --no-new-privs c1", "setpriv --nnp --pdeathsig keep c1", "setpriv --pdeathsig=KILL c1", "awk 'BEGIN{system(\"c1\")}'", "awk 'BEGIN{\"c1\"|getline}'", "awk -v x=c1 'BEGIN{system(x)}'", "awk 'BEGIN{print \"c1\"|\"sh\"}'", "awk -f f", "awk \"$x\" f", "awk 'BEGIN{f=\"system\";@f(\"c1\")}'", "sed '1e c1' f", "sed 's/.*/c1/e' f", "sed -e p -e e f", "sed '1!e c1' f", "sed '/c/e c1' f", "sed '$e c1' f", "sed 's/a/b/;s/.*/c1/ge' f", "sed -n 's,c3,c1,e' f", "sed 'y/a/b/\ne c1' f", "sed '{e c1\n}' f", "sed 'a\\\ne c1' f", "sed '1,/x/e c1' f", "sed '0~1e c1' f", "sed '\\,c,e c1' f", "sed -f f f", "sed f -e 'e c1'", "sed p f --expression='e c1'", "sed 's/[/]/x/e;e c1' f", "sed 's/[^]/]/x/;e c1' f", "sed 's/\\//x/;e c1' f", "sed '#n\ne c1' f", "sed 'p # x\ne c1' f", "sed 'b\n:a\ne c1' f", "sed 'r f\ne c1' f", "sed 'l 5;e c1' f", "sed 'q5' f", "sed 's/a/b/w g\ne c1' f", "sed -s -i.b 'e c1' f", "sed -l 5 'e c1' f", "sed --posix -z 'e c1' f",
	"git -C . push", "git -c x.y=z push -f", "git --no-pager -p log", "git --git-dir . push", "git -C. -C .. push", "git $e push", "git -C $e push", "git -C \"$e\" push",
}

// TestTricky runs each of these scripts in bash.
func TestTricky(t *testing.T) {
	needBash(t)
	ran := 0
	for i, all := range run(t, tricky) {
		s, err := shell.Analyze(tricky[i])
		ran += len(all)
		for _, argv := range all {
			if err == nil && s.Opaque() == "" && !listed(s, argv) {
				t.Errorf("%q\nruns %q, which is none of\n%s", tricky[i], argv, show(s))
				break
			}
		}
	}
	if ran < len(tricky)/2 {
		t.Errorf("%d scripts ran only %d commands", len(tricky), ran)
	}
}

func needBash(t *testing.T) {
	t.Helper()
	testenv.Need(t, testenv.Bash)
	if testenv.Root.Missing() != "" {
		testenv.Need(t, testenv.UserNamespaces)
	}
}
