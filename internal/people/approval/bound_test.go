package approval

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// A yes can be for more than one call only if its programs do what their words say. What
// the programs in these cases do is decided by files, hooks or settings.
func TestProgramsThatAreNotRemembered(t *testing.T) {
	for command := range strings.SplitSeq("make x;npm run deploy;npm test;yarn deploy;pnpm deploy;cargo run;cargo test;go run .;go test;go generate;pytest;gradle run;mvn test;kubectl apply -f d.yaml;terraform apply;ansible-playbook x.yml;pip install .;cmake --build b;ctest;dotnet run;composer x;bundle exec x;poetry run x;uv run x;pre-commit run;bazel run x;helm upgrade x;docker compose up;git commit -m x;git push;psql -f x.sql;sqlite3 x.db;python3 x.py;./x;/usr/bin/ls;bash x.sh;awk -f x y;sed -f x y;perl x.pl;vagrant up;deno task x;meson test;scons;ant;sbt run;lein run;mix test;swift run;zig build;nix build;task x;npx x;node x.js;tsc;curl https://a.example;wget x;sort x;tar xf x;find . -delete;ssh h;crontab f;xargs rm;split x;install -s a b", ";") {
		if _, plain := canonical(command); plain {
			t.Errorf("%s: a yes can be for more than once", command)
		}
	}
	for _, command := range []string{"ls -l", "rm -r build", "cp a b && mv b c", "mkdir x; touch x/y", "truncate -s0 data", "cd a && rm b", "dd if=a of=b", "CI=1 rm x", "chmod 600 x"} {
		if _, plain := canonical(command); !plain {
			t.Errorf("%s: a yes can be for once only", command)
		}
	}
	d := opened(t, "")
	for name, change := range map[string]func(*policies.Facts){
		"PATH of the call": func(f *policies.Facts) {
			f.Env, f.Values = []string{"PATH"}, map[string]string{"PATH": "/workspace/bin"}
		},
		"a variable of unknown value": func(f *policies.Facts) { f.Env = []string{"LD_PRELOAD"} },
		"a file in the program's place": func(f *policies.Facts) {
			f.Scene = &policies.Scene{Files: []policies.SceneFile{{Path: "/workspace/bin/rm", As: "rm"}}}
		},
		"a link in the program's place": func(f *policies.Facts) {
			f.Scene = &policies.Scene{Doubts: []string{"/workspace/bin/rm is a link"}}
		},
	} {
		if a := d.asks(t, d.wants("rm -r x", change)); len(a.Scopes) != 1 {
			t.Errorf("with %s a yes can be for %v", name, a.Scopes)
		}
	}
}

// A yes is good only in the directory for which it was given, also a yes for more than one
// call.
func TestAnotherDirectoryAsksAnew(t *testing.T) {
	for _, reply := range []Reply{{Yes: true}, {Yes: true, Scope: Session}, {Yes: true, Scope: Hours}} {
		d := opened(t, "")
		in := func(dir string) Request {
			return d.wants("rm -r data", func(f *policies.Facts) { f.Scene = &policies.Scene{Dir: dir} })
		}
		a := d.asks(t, in("/workspace/scratch"))
		d.says(t, a.ID, reply)
		if d.uses(t, a.ID, in("/workspace/precious")) || d.asks(t, in("/workspace/precious")).ID == a.ID {
			t.Errorf("a yes for %s is good in another directory", reply.Scope)
		}
		if !d.uses(t, a.ID, in("/workspace/scratch")) {
			t.Errorf("a yes for %s is not good in its own directory", reply.Scope)
		}
	}
}

// calls makes random calls, and variants of each call that differ in one part.
type calls struct{ *rand.Rand }

func (g calls) pick(of ...string) string { return of[g.IntN(len(of))] }

// letters returns a text of n letters, blanks and line ends.
func (g calls) letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte('a' + g.IntN(26)); i%50 == 49 {
			b[i] = '\n'
		} else if i%7 == 6 {
			b[i] = ' '
		}
	}
	return string(b)
}

func (g calls) file() policies.SceneFile {
	f := policies.SceneFile{Path: "/workspace/" + g.pick("deploy.sh", "x.py", "Makefile", "bin/git", "a b"), Size: g.Int64N(1000), Digest: digestOf(g.letters(9))}
	if g.IntN(3) == 0 {
		f.As = g.pick("git", "ls")
	}
	return f
}

func (g calls) facts() policies.Facts {
	f := policies.Facts{Tenant: "local", Session: "s-ONE-0123456789", Tool: g.pick("Bash", "BackgroundBash"), Args: make(map[string]any), Values: make(map[string]string)}
	f.Command = g.pick("rm -r build", "git push origin main", "bash deploy.sh", "cat > x <<'E'\n"+g.letters(1+g.IntN(4000))+"\nE", "rm '"+g.letters(1+g.IntN(2000))+"'",
		"for f in a b; do rm $f; done", "cd sub && rm x", "echo "+g.letters(30)+" | bash", strings.Repeat("rm a\n", g.IntN(100))+"rm b", "if test -f a; then rm b; else rm c; fi", "rm (") + "\nrm " + g.pick("end", "x", "y")
	if g.IntN(2) == 0 {
		f.Stdin = g.letters(1 + g.IntN(3000))
	}
	for range g.IntN(60) * g.IntN(2) {
		f.Values[g.pick("A", "GIT_DIR", "PATH", "X")+strconv.Itoa(g.IntN(99))] = g.letters(g.IntN(700))
	}
	f.Scene = &policies.Scene{Dir: "/workspace/" + g.pick("", "a", "b/c"), Tasks: g.IntN(3)}
	if g.IntN(3) == 0 {
		f.Scene.Doubts = append(f.Scene.Doubts, "/workspace/y.sh is a link")
	}
	for range g.IntN(3) {
		f.Scene.Files = append(f.Scene.Files, g.file())
	}
	if g.IntN(3) == 0 {
		f.Args["timeout"] = float64(g.IntN(9999))
	}
	return filled(f)
}

// filled returns facts with Args and Env filled in from the other fields.
func filled(f policies.Facts) policies.Facts {
	f.Args["command"], f.Args["stdin"], f.Args["env"] = f.Command, f.Stdin, maps.Clone(f.Values)
	f.Env = slices.Sorted(maps.Keys(f.Values))
	return f
}

// turned returns a text with another letter in one place.
func (g calls) turned(s string) string {
	i := g.IntN(len(s))
	for tries := 0; s[i] < 'a' || s[i] > 'z'; tries++ {
		if i = (i + 1) % len(s); tries > len(s) {
			return s + "x"
		}
	}
	return s[:i] + string('a'+(s[i]-'a'+1+byte(g.IntN(25)))%26) + s[i+1:]
}

// other returns the call with one change to the things that decide what runs. what names
// the changed thing.
func (g calls) other(f policies.Facts) (what string, o policies.Facts) {
	o = f
	o.Args, o.Values = maps.Clone(f.Args), maps.Clone(f.Values)
	scene := *f.Scene
	scene.Files, scene.Doubts = slices.Clone(f.Scene.Files), slices.Clone(f.Scene.Doubts)
	o.Scene = &scene
	switch g.IntN(9) {
	case 0, 1:
		what, o.Command = "command", g.turned(f.Command)
	case 2:
		if what = "input"; f.Stdin == "" {
			o.Stdin = "x"
		} else {
			o.Stdin = g.turned(f.Stdin)
		}
	case 3:
		what = "value of a variable"
		for name, value := range f.Values {
			o.Values[name] = value + "x"
			if value != "" {
				o.Values[name] = g.turned(value)
			}
			return what, filled(o)
		}
		o.Values["A"] = "x"
	case 4:
		what = "variable"
		o.Values["NEW"] = ""
	case 5:
		what, scene.Dir = "directory", f.Scene.Dir+"/x"
	case 6:
		what = "content of a file"
		if len(scene.Files) == 0 {
			scene.Files = []policies.SceneFile{g.file()}
		} else {
			scene.Files[g.IntN(len(scene.Files))].Digest = digestOf("other")
		}
	case 7:
		what, scene.Doubts = "doubt", append(scene.Doubts, "/workspace/x.sh is a link")
	default:
		what = "argument"
		o.Args["timeout"] = 10_000.0
	}
	return what, filled(o)
}

// Everything that changes what runs is shown, and is part of what a yes is bound to: two
// calls that differ in one such thing have different texts, and a yes to one call does not
// answer the other.
func TestWhatIsShownIsWhatIsBound(t *testing.T) {
	count, random := testenv.Cases(t, 200)
	d := opened(t, "")
	g := calls{random}
	request := func(f policies.Facts) Request {
		r := Request{CallID: "c-1", Principal: "tenant local", Facts: f, Decision: d.policy.Decide(f)}
		r.Decision.Verdict, r.Decision.Rule = policies.Ask, "publish"
		r.Decision.Remember = policies.Remember{Session: true}
		return r
	}
	seen := make(map[string]int)
	for i := range count {
		if i%100 == 99 {
			d = opened(t, "") // an empty desk is faster
		}
		f := g.facts()
		f.Args["case"] = float64(i) // a unique argument, so that no case finds the answer of another
		what, o := g.other(f)
		seen[what]++
		a := d.asks(t, request(f))
		lines := strings.Join(a.Shown.Lines(), "\n")
		if other := strings.Join(shown(o, nil).Lines(), "\n"); other == lines {
			t.Errorf("case %d: with another %s the person reads the same:\n%s\ncall  %#v\nother %#v", i, what, lines, f, o)
		}
		reply := Reply{Yes: true, Scope: Scope(g.pick(string(Once), string(a.Scopes[len(a.Scopes)-1])))}
		if reply.Scope == Hours {
			reply.Scope = Session
		}
		d.says(t, a.ID, reply)
		// A yes for more than one call is not bound to the contents of files.
		files := reply.Scope == Session && what == "content of a file"
		if d.uses(t, a.ID, request(o)) && !files {
			t.Errorf("case %d: a yes for %s is good for a call with another %s: %s", i, reply.Scope, what, lines)
		}
		if b := d.asks(t, request(o)); b.ID == a.ID && !files {
			t.Errorf("case %d: a call with another %s finds the yes for %s", i, what, reply.Scope)
		} else if b.State == Pending {
			d.says(t, b.ID, Reply{})
		}
		if !d.uses(t, a.ID, request(f)) {
			t.Errorf("case %d: the call itself cannot use its yes for %s", i, reply.Scope)
		}
	}
	t.Log(fmt.Sprint(seen))
}
