package shell_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/policies/shell"
)

// TestDoubt checks the doubts about programs for texts in another language, however their
// options are written, and about builtins that set a variable whose text the shell runs.
func TestDoubt(t *testing.T) {
	for _, script := range []string{
		// The program text is behind an option with a value, or behind an unknown option.
		"python3 -W ignore -c 'import os'", "python3 -X dev -c x", "python3 -Wignore -c x", "python3 -m timeit 'x'", "python3 -um timeit x", "python3 -m pdb -c '!x' f.py",
		"python3 --check-hash-based-pycs always -c x", "python3 -V -c x", "python3 -i x.py", "python3 -", "python3 /dev/stdin", "python3 -- -",
		"perl -I lib -e 'x'", "perl -Ilib -Mstrict f", "perl -T -I lib -e x", "perl -F'/x/' f", "perl --unknown x f", "perl -d:Foo f",
		"ruby -I lib -e 'x'", "ruby -C d -e x", "ruby -W0 -ruri f", "ruby --encoding utf-8 -e x", "ruby --version -e x",
		"node -C x --eval 'y'", "node --conditions x -e y", "node --no-warnings -pe x", "node --max-old-space-size 99 -e x", "node --unknown x.js", "node --loader ./x.js y.js", "node --import=data:x y.js", "node --env-file=x y.js",
		"deno run -A -", "deno run https://a.example/x.ts", "deno eval x", "bun run -",
		"php -c /etc -r 'x'", "php -n -r x", "php -d a=b x.php", "lua -W -e x", "Rscript --vanilla -e x", "guile -c x", "sbcl --eval x",
		"psql -h x -c '\\! y'", "psql x", "mysql -h x -e 'system y'", "sqlite3 db '.shell x'", "sqlite3 db ' .shell x'", "sqlite3 db", "sqlite3 -cmd '.shell x' db 'select 1'", "sqlite3 db \"select edit('x','y')\"",
		"awk -f x f", "awk -f- f", "gawk -E x", "awk -F: -f x f", "gawk -i x '{print}'", "gawk --source 'x' f", "dc -e '!x'", "gnuplot -e x",

		// Names of variables as arguments of builtins.
		"printf -v 'BASH_ALIASES[ls]' x", "printf -v'BASH_ALIASES[ls]' x", `printf -v "$n" x`, `printf "$o" x`, "read 'BASH_ALIASES[ls]' < f", "read -r PS4 < f", "read -d x PS4", "read -a BASH_CMDS", "read -aPS4 x",
		"read -p 'a b' -r PS4", `read "$n"`, "mapfile -t BASH_ENV < f", "readarray BASH_CMDS", "getopts ab PS4", "wait -n -p PS4", "unset 'BASH_ALIASES[$x]'", "unset PATH", "unset PS4",
		"declare -n n=BASH_ALIASES; n[ls]=x", "declare -n q=PS4; q='$(x)'; set -x", "f() { local -n q=$1; q=y; }; f PS4", "typeset -n n; n=PS4", "declare 'BASH_ALIASES[ls]=x'", `export "BASH_ENV=x"`, `declare "$n=x"`, `export $(cat f)`,
		"command export BASH_ENV=x", "builtin declare -n q=PS4", "command let PS4=1", "BASH_CMDS[ls]=x", "for BASH_ENV in x; do bash -c y; done", "select PS4 in x; do y; done", ": ${BASH_ENV:=x}", `n=BASH_ENV; : "${!n:=x}"`,
		"((BASH_ENV=1))", "((PS4++))", "echo $((ENV=1))", "exec {BASH_ENV}>f", "coproc BASH_ENV { x; }", "env BASH_ENV=x bash -c y", "env 'BASH_FUNC_ls%%=() { x; }' bash -c ls", "sudo BASH_ENV=x ls",
		"POSIXLY_CORRECT=1 bash -c x", "shopt -so keyword; x A=1", "shopt -u extquote", "shopt $x",

		// Variables that make programs run or load more than their words say.
		"PATH=/workspace/bin ls", "PATH=/workspace/bin:$PATH; ls", "export PATH=~/bin:$PATH", "PATH+=x ls", "PATH= ls", "read PATH < f", "printf -v PATH x", "env PATH=x ls", "((PATH=1))", "for PATH in x; do ls; done", ": ${LD_PRELOAD:=x}",
		"LD_PRELOAD=./x.so ls", "export LD_AUDIT=x", "GIT_SSH_COMMAND=x git fetch", "GIT_DIR=x git status", "GIT_CONFIG_COUNT=1 git status", "GIT_PAGER=./x git log", "MANPAGER=x man y", "EDITOR=./x git commit", "PYTHONPATH=x python3 y.py",
		"PYTHONSTARTUP=x python3 y.py", "NODE_OPTIONS='--require ./x' npm test", "PERL5OPT=-Mx perl y.pl", "RUBYOPT=-rx ruby y.rb", "MAKEFLAGS=--eval=x make", "LESSOPEN='|x %s' less y", "TAR_OPTIONS=--to-command=x tar xf y", "RSYNC_RSH=x rsync a b",
		"CARGO_BUILD_RUSTC_WRAPPER=x cargo build", "GOFLAGS=-toolexec=x go build", "npm_config_script_shell=x npm test", "CC=./x make", "HOME=/workspace git status", "CDPATH=x cd y", "JAVA_TOOL_OPTIONS=-javaagent:x java y", "LD_PRELOAD=x; export LD_PRELOAD; ls",
		"APT_CONFIG=x apt-get update", "CONFIG_SITE=x ./configure", "RIPGREP_CONFIG_PATH=x rg y", "PARALLEL='--filter x' parallel y", "FZF_DEFAULT_OPTS='--preview x' fzf", "DBUS_SESSION_BUS_ADDRESS=unixexec:path=x notify-send y",
		"DOTNET_STARTUP_HOOKS=x dotnet run", "CORECLR_PROFILER_PATH=x dotnet run", "ERL_FLAGS='-eval x' erl", "ELIXIR_ERL_OPTIONS='-eval x' mix test", "MIX_EXS=x mix test", "JAVACMD=x gradle build", "JAVA_OPTS=-javaagent:x y",
		"GOCACHE=x go build", "CGO_CFLAGS_ALLOW=. go build", "COMPOSER=x composer install", "DPKG_ROOT=x dpkg -i y", "NIX_PATH=x nix-build", "FLASK_APP=x flask run", "DJANGO_SETTINGS_MODULE=x django-admin check", "COMPOSE_FILE=x docker compose up",
		"CLOUDSDK_PYTHON=x gcloud info", "VAGRANT_VAGRANTFILE=x vagrant up", "BORG_PASSCOMMAND=x borg list", "SSH_SK_HELPER=x ssh y", "CHROME_BIN=x karma start", "PUPPETEER_EXECUTABLE_PATH=x node y.js", "CCACHE_PREFIX=x make", "VALGRIND_LIB=x valgrind y",
		"C_INCLUDE_PATH=x make", "JULIA_DEPOT_PATH=x julia y.jl", "EMACSLOADPATH=x emacs", "GNUPGHOME=x gpg -d y", "OPENSSL_ENGINES=x openssl y", "ASAN_OPTIONS=external_symbolizer_path=x ./y", "CAML_LD_LIBRARY_PATH=x ocaml y", "MONO_PATH=x mono y",
	} {
		s, err := shell.Analyze(script)
		if err != nil || s.Doubt() == "" {
			t.Errorf("%s: %s, %v; want a doubt", script, show(s), err)
		}
	}
	for _, script := range []string{
		"python3 x.py -c y", "python3 -u -W ignore x.py", "python3 -m pytest -k x -x", "python3 -V", "perl -w x.pl -e", "perl -I lib -w x.pl", "ruby -w x.rb", "node x.js --eval", "node --max-old-space-size=4096 --no-warnings x.js", "deno run -A x.ts", "php x.php", "php -f x.php", "php -v",
		"sqlite3 -json db 'select 1'", "psql --version", "awk -F'|' -v a=b '{print $1}' f", "awk '$1 > 2 || $2' f",
		"read -r x y < f", "IFS= read -rd '' x", "while IFS=, read -r a b; do echo \"$a\"; done < f", "printf '%s\\n' \"$x\"", "printf \"a$x\"", "printf -v x %s y", "mapfile -t a < f", "unset x LD_PRELOAD GIT_DIR", "getopts ab o", "wait -n", "declare -a a=(1 2)", "declare -A m; m[x]=y", "((i++))", "((a[i]=1))", "let i=i+1", "for f in a b; do cat $f; done", "exec {fd}>f",
		"export PATH=$PATH:/workspace/bin; ls", "PATH=\"$PATH:$HOME/bin\" ls", "PATH+=:/x ls", "PATH=/usr/bin:/bin ls", "PATH=/usr/local/go/bin:$PATH go test", "GIT_PAGER=cat git log", "PAGER= git log", "GIT_EDITOR=true git rebase --continue", "GIT_AUTHOR_NAME=x git commit", "GIT_TERMINAL_PROMPT=0 git fetch",
		"NODE_OPTIONS=--max-old-space-size=4096 npm test", "NODE_ENV=test npm test", "CI=1 go test", "GOOS=linux CGO_ENABLED=0 go build", "PYTHONUNBUFFERED=1 python3 x.py", "CARGO_TERM_COLOR=never cargo test", "TZ=UTC LC_ALL=C date", "pager=x ls", "MIX_ENV=test mix test", "DOTNET_NOLOGO=1 dotnet test", "HOMEBREW_NO_AUTO_UPDATE=1 brew list", "COMPOSER_NO_INTERACTION=1 composer install", "shopt -s nullglob extglob",
	} {
		s, err := shell.Analyze(script)
		if err != nil || s.Doubt() != "" {
			t.Errorf("%s: %s, %v; want none, got %q", script, show(s), err, s.Doubt())
		}
	}
}

// cases returns how many random cases a test makes, and the seed: BELLJAR_TEST_CASES is
// "2000", or "2000 7" with the seed.
func cases(t *testing.T, usual int) (count int, seed uint64) {
	t.Helper()
	count, seed = usual, 1
	if s := os.Getenv("BELLJAR_TEST_CASES"); s != "" {
		number, rest, _ := strings.Cut(s, " ")
		var err error
		if count, err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.ParseUint(rest, 10, 64); err == nil {
			seed = n
		}
	}
	t.Logf("%d cases of seed %d", count, seed)
	return count, seed
}

// hidden returns a script that may make bash start c4 although no word says so: by
// variables in its environment, or by ways in the script to set such variables. The files
// p/c1 and g in its directory start c4 as well.
func (g generator) hidden() (script string, env []string) {
	trigger := g.pick("c1", "c1 a", "bash -c c1", "sh -c 'c1 b'", "ls f", "set -x; c1", "bash -xc c1", "c2; c1", "env bash -c c1", "timeout 2 bash -c c1")
	name, value := "A", "1"
	switch g.IntN(10) {
	case 0:
		name, value = g.pick("BASH_FUNC_c1%%", "BASH_FUNC_ls%%", "BASH_FUNC_set%%"), "() { c4 \"$@\"; }"
	case 1:
		name, value = "BASH_ENV", g.pick("h", "./h", "$(c4)", "/dev/null")
	case 2:
		name, value = "PS4", g.pick("$(c4)", "`c4` ", "+ ")
	case 3, 4:
		name, value = "PATH", g.pick("p:$PATH", "./p:$PATH", "p", ":$PATH", "$PATH:p", "$PWD/p:$PATH", "/usr/bin:$PATH")
	case 5:
		name, value = "BASH_ALIASES[c1]", g.pick("c4", "c4 x", "c2")
	case 6:
		name, value = "BASH_CMDS[c1]", g.pick("p/c1", "../bin/c4", "../bin/c2")
	case 7:
		name, value = g.pick("SHELLOPTS", "BASHOPTS", "ENV", "PROMPT_COMMAND", "POSIXLY_CORRECT", "IFS", "CDPATH", "LC_ALL", "CI", "x"), g.pick("xtrace", "expand_aliases", "c4", "h", "1")
	case 8:
		name, value = g.pick("PS4", "BASH_ENV"), g.pick("$(c4)", "h")
	}
	if strings.Contains(name, "ALIASES") {
		trigger = "shopt -s expand_aliases\n" + trigger
	}
	q := quote(value)
	if name == "PATH" {
		q = `"` + value + `"`
	}
	plain := !strings.ContainsAny(name, "[%")
	if strings.Contains(name, "%") || plain && g.IntN(4) == 0 {
		env = append(env, name+"="+strings.NewReplacer("$PATH", "/usr/bin:/bin", "$PWD", ".").Replace(value))
		if name == "PS4" {
			env = append(env, "SHELLOPTS=xtrace")
		}
		if name == "PATH" {
			env = nil // the test finds its programs by PATH
		}
		return trigger, env
	}
	set := g.pick(
		name+"="+q, "export "+name+"="+q, "declare "+name+"="+q, "declare -x "+quote(name)+"="+q, "printf -v "+quote(name)+" %s "+q, "printf -v"+quote(name)+" %s "+q,
		"read -r "+quote(name)+" <<< "+q, "read "+quote(name)+" <<< "+q, "IFS= read -r -d '' "+quote(name)+" <<< "+q, "n="+quote(name)+"; printf -v \"$n\" %s "+q, "n="+quote(name)+"; read -r \"$n\" <<< "+q,
		"declare -n r="+strings.TrimSuffix(name, "[c1]")+"; r"+strings.TrimPrefix(name, strings.TrimSuffix(name, "[c1]"))+"="+q, "n="+quote(name)+"; declare \"$n=\""+q, "n="+quote(name)+"; export \"$n=\""+q, "command export "+name+"="+q,
		"for "+name+" in "+q+"; do :; done", ": ${"+name+":="+q+"}", "n="+quote(name)+"; : \"${!n:="+value+"}\"", "builtin declare "+quote(name)+"="+q, "eval "+quote(name+"="+q),
		"declare -n r; for r in "+strings.TrimSuffix(name, "[c1]")+"; do r"+strings.TrimPrefix(name, strings.TrimSuffix(name, "[c1]"))+"="+q+"; done", "unset x; x+="+q+"; "+name+"=$x", "mapfile -t "+strings.TrimSuffix(name, "[c1]")+" <<< "+q,
		"wait -p "+quote(name), "getopts a "+quote(name)+" -a", "(("+name+"=1))", name+"+="+q, "readonly "+name+"="+q, "f() { local "+quote(name)+"="+q+"; "+trigger+"; }; f",
	)
	switch g.IntN(6) {
	case 0:
		if plain {
			return name + "=" + q + " " + strings.TrimPrefix(trigger, "set -x; "), nil
		}
	case 1:
		if plain {
			return "env " + quote(name) + "=" + q + " bash -c " + quote(trigger), nil
		}
	case 2:
		if plain {
			return set + "; export " + name + "\n" + trigger, nil
		}
	}
	return set + g.pick("; ", "\n", " && ") + trigger, nil
}

// interpreted returns a program in another language that starts c4.
func (g generator) interpreted() string {
	python, perl, node, awk := `import os; os.system("c4 x")`, `system("c4 x")`, `require("child_process").execSync("c4 x")`, `BEGIN{system("c4 x")}`
	switch g.IntN(6) {
	case 0, 1:
		return "python3 " + g.pick("", "-W ignore ", "-X dev ", "-I ", "-Wignore -u ", "-B -X utf8 ", "-s -S ") + g.pick("-c "+quote(python), "-Bc "+quote(python), "-m timeit -n 1 -r 1 "+quote(python), "- <<< "+quote(python), "<<< "+quote(python), "/dev/stdin <<< "+quote(python), "-V", "f", "-m py_compile f")
	case 2:
		return "perl " + g.pick("", "-I lib ", "-w ", "-T -I lib ", "-Ilib ", "-0777 ", "-C ") + g.pick("-e "+quote(perl), "-we "+quote(perl), "-E "+quote(perl), "- <<< "+quote(perl), "-ne "+quote(perl)+" f", "-v", "-w f -e "+quote(perl))
	case 3:
		return "node " + g.pick("", "--no-warnings ", "-C x ", "--conditions x ", "--title x ") + g.pick("-e "+quote(node), "--eval "+quote(node), "--eval="+quote(node), "-pe "+quote(node), "- <<< "+quote(node), "--version")
	case 4:
		return "awk " + g.pick("", "-F: ", "-F , ", "-v a=b ") + g.pick("-f g f", "-fg f", "-f- f <<< "+quote(awk), quote(awk), "'{print $1}' f", "-v x=system "+quote(`BEGIN{@x("c4")}`))
	}
	return "sqlite3 " + g.pick("", "-csv ", "-bail ", "-cmd '.shell c4 x' ") + ":memory: " + g.pick("'.shell c4 x'", "'select 1'", "'.system c4'", "<<< '.shell c4'")
}

// However a variable is set, in a script or in its environment, and whatever the options of
// an interpreter are: a word names each program that starts, or there is a doubt. Many of
// the cases do start c4, so the test would notice a missing doubt.
func TestNoVariableStartsMore(t *testing.T) {
	needBash(t)
	count, seed := cases(t, 150)
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	hidden, doubted, bad := 0, 0, 0
	for done := 0; done < count && bad < 20; {
		n := min(count-done, 500)
		scripts, envs := make([]string, n), make([][]string, n)
		for i := range scripts {
			if scripts[i], envs[i] = g.hidden(); i%5 == 4 {
				scripts[i], envs[i] = g.interpreted(), nil
			}
		}
		done += n
		for i, all := range runWith(t, scripts, envs) {
			s, err := shell.Analyze(scripts[i])
			doubt := err != nil || s.Doubt() != ""
			for _, e := range envs[i] {
				name, value, _ := strings.Cut(e, "=")
				doubt = doubt || shell.EffectOf(name, shell.Word{Text: value}) != shell.NoEffect
			}
			if doubt {
				doubted++
			}
			for _, argv := range all {
				if listed(s, argv) {
					continue
				}
				if hidden++; !doubt {
					bad++
					t.Errorf("%q with %q\nruns %q, which is none of\n%s", scripts[i], envs[i], argv, show(s))
				}
				break
			}
		}
	}
	t.Logf("%d cases start what no word says, %d are doubted", hidden, doubted)
	if hidden < count/6 || doubted == count {
		t.Errorf("%d of %d cases start more than their words say, which proves nothing", hidden, count)
	}
}
