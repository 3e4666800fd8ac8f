package approval

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

const policyText = `version: 1
defaults:
  decision: allow
  profile: offline
  ask: {timeout: 10m, return_after: 20s}
profiles: {offline: {fs: {system: true, workspace: rw}}}
rules:
  - {id: publish, match: {tool: "*Bash", command: ["git push **", "rm **"]}, decision: ask, reason: Publishing needs a person., remember: [once, session, 2h]}
  - {id: send, match: {tool: Bash, command: "mail **"}, decision: ask, remember: [once]}
  - {id: images, match: {tool: ReadImage, path: "/workspace/**"}, decision: ask, remember: [session]}
`

// desk is a Desk with its own clock.
type desk struct {
	*Desk
	store  *store.Store
	clock  atomic.Int64 // nanoseconds since the start
	policy *policies.Policy

	mu     sync.Mutex
	events []string // guarded by mu
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (d *desk) pass(t time.Duration) { d.clock.Add(int64(t)) }

func (d *desk) told() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.events, " ")
}

func parsed(t testing.TB, text string) *policies.Policy {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// opened returns a desk over the state directory dir; if dir is empty, the desk is in
// memory.
func opened(t testing.TB, dir string, change ...func(*Config)) *desk {
	t.Helper()
	d := &desk{store: store.New(dir), policy: parsed(t, policyText)}
	t.Cleanup(func() { d.store.Close() })
	cfg := Config{
		Config: store.Config{Store: d.store, Place: "/home/u/project", Now: func() time.Time { return start.Add(time.Duration(d.clock.Load())) }},
		Event: func(e Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, e.Kind)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	d.Desk = New(cfg)
	return d
}

// wants returns a call of Bash.
func (d *desk) wants(command string, change ...func(*policies.Facts)) Request {
	f := policies.Facts{Tenant: "local", Session: "s-ONE-0123456789", Tool: "Bash", Command: command, Args: map[string]any{"command": command}}
	for _, c := range change {
		c(&f)
	}
	return Request{CallID: "c-1", Principal: "tenant " + f.Tenant, Facts: f, Decision: d.policy.Decide(f)}
}

func (d *desk) asks(t testing.TB, r Request) Approval {
	t.Helper()
	a, _, err := d.Ask(t.Context(), r)
	if err != nil {
		t.Fatalf("ask about %q: %v", r.Facts.Command, err)
	}
	return a
}

func (d *desk) says(t testing.TB, id string, r Reply) Approval {
	t.Helper()
	r.By, r.Via = "me", "command line"
	a, err := d.Answer(t.Context(), id, r)
	if err != nil {
		t.Fatalf("answer %s: %v", id, err)
	}
	return a
}

func (d *desk) uses(t testing.TB, id string, r Request) bool {
	t.Helper()
	ok, err := d.Use(t.Context(), id, r)
	if err != nil {
		t.Fatalf("use %s: %v", id, err)
	}
	return ok
}

func TestOnce(t *testing.T) {
	d := opened(t, "")
	call := d.wants("git push origin main")
	a := d.asks(t, call)
	if a.State != Pending || a.Profile != "offline" || a.Rule != "publish" || a.Expires.Sub(a.Created) != 10*time.Minute {
		t.Errorf("asked, it is %+v", a)
	}
	if b := d.asks(t, call); b.ID != a.ID {
		t.Errorf("an equal call asks %s, want to join %s", b.ID, a.ID)
	}
	if d.uses(t, a.ID, call) {
		t.Error("a question that nobody answered can be used")
	}
	d.says(t, a.ID, Reply{Yes: true})
	for name, other := range map[string]Request{
		"other arguments": d.wants("git push origin other"),
		"other spelling":  d.wants("git push  origin main"),
		"other options":   d.wants("git push origin main", func(f *policies.Facts) { f.Args["timeout"] = 5.0 }),
		"other tenant":    d.wants("git push origin main", func(f *policies.Facts) { f.Tenant = "team-a" }),
	} {
		if d.uses(t, a.ID, other) {
			t.Errorf("%s: the yes is good for it", name)
		}
		if b := d.asks(t, other); b.ID == a.ID {
			t.Errorf("%s: it joined the question", name)
		}
	}
	// The same call after a restart or in another session is not another call.
	again := d.wants("git push origin main", func(f *policies.Facts) { f.Session = "s-TWO" })
	if b := d.asks(t, again); b.ID != a.ID || b.State != Approved {
		t.Errorf("the call repeated: %s is %s, want %s approved", b.ID, b.State, a.ID)
	}
	if !d.uses(t, a.ID, again) {
		t.Error("the yes cannot be used")
	}
	if d.uses(t, a.ID, again) {
		t.Error("a yes for one call was used twice")
	}
	if b := d.asks(t, call); b.ID == a.ID || b.State != Pending {
		t.Errorf("after its use the call gets %s, which is %s, want a new question", b.ID, b.State)
	}
	if got := d.told(); !strings.HasPrefix(got, "asked given asked") || !strings.Contains(got, "used") {
		t.Errorf("it told of: %s", got)
	}
}

func TestParallelRepeatsUseAYesOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	one, two := opened(t, dir), opened(t, dir)
	for range 10 {
		call := one.wants("git push origin main")
		a := one.asks(t, call)
		one.says(t, a.ID, Reply{Yes: true})
		var used atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			d := []*desk{one, two}[i%2]
			wg.Go(func() {
				if ok, err := d.Use(t.Context(), a.ID, call); err != nil {
					t.Error(err)
				} else if ok {
					used.Add(1)
				}
			})
		}
		wg.Wait()
		if got := used.Load(); got != 1 {
			t.Fatalf("a yes for one call let %d run", got)
		}
	}
}

func TestFirstAnswerHolds(t *testing.T) {
	d := opened(t, "")
	a := d.asks(t, d.wants("git push"))
	d.says(t, a.ID, Reply{Note: "later\n\u202e"})
	if b := d.says(t, a.ID, Reply{}); b.Note != `later\n\u202e` {
		t.Errorf("the same answer again gives %+v", b)
	}
	if _, err := d.Answer(t.Context(), a.ID, Reply{Yes: true, By: "another"}); !errors.Is(err, ErrAnswered) {
		t.Errorf("another answer: got %v, want %v", err, ErrAnswered)
	}
	// A no is good for the time that the question had.
	if b := d.asks(t, d.wants("git push")); b.ID != a.ID || b.State != Declined {
		t.Errorf("asked again, it is %s %s, want %s declined", b.ID, b.State, a.ID)
	}
	d.pass(11 * time.Minute)
	if b := d.asks(t, d.wants("git push")); b.ID == a.ID || b.State != Pending {
		t.Errorf("asked much later, it is %s, want a new question", b.State)
	}
	if _, err := d.Answer(t.Context(), "ap-nothing", Reply{}); !errors.Is(err, people.ErrUnknown) {
		t.Errorf("answer to nothing: got %v, want %v", err, people.ErrUnknown)
	}
	y := d.asks(t, d.wants("git push x"))
	d.says(t, y.ID, Reply{Yes: true})
	if b := d.says(t, y.ID, Reply{Yes: true}); b.State != Approved {
		t.Errorf("the same yes again: %s", b.State)
	}
	if _, err := d.Answer(t.Context(), y.ID, Reply{}); !errors.Is(err, ErrAnswered) {
		t.Errorf("no after yes: got %v, want %v", err, ErrAnswered)
	}
}

func TestExpiry(t *testing.T) {
	d := opened(t, "")
	call := d.wants("git push")
	a := d.asks(t, call)
	d.pass(10 * time.Minute)
	if b, err := d.Get(t.Context(), a.ID); err != nil || b.State != Expired {
		t.Errorf("after its time it is %s, %v, want expired", b.State, err)
	}
	if _, err := d.Answer(t.Context(), a.ID, Reply{Yes: true}); !errors.Is(err, ErrOver) {
		t.Errorf("a yes that comes too late: got %v, want %v", err, ErrOver)
	}
	b := d.asks(t, call)
	if b.ID == a.ID || b.State != Pending {
		t.Errorf("asked again, it is %s, want a new question", b.State)
	}
	// A yes that is not used ends too.
	d.says(t, b.ID, Reply{Yes: true})
	d.pass(10 * time.Minute)
	if d.uses(t, b.ID, call) {
		t.Error("a yes of long ago can be used")
	}
	if c := d.asks(t, call); c.ID == b.ID {
		t.Errorf("a yes of long ago is found: %+v", c)
	}
	if got := d.told(); got != "asked expired asked given expired asked" {
		t.Errorf("it told of: %s", got)
	}
	d.pass(8 * 24 * time.Hour)
	d.asks(t, d.wants("git push other"))
	if list, err := d.List(t.Context(), true); err != nil || len(list) != 1 {
		t.Errorf("long after, %d are kept, %v, want 1, the new one", len(list), err)
	}
}

func TestRemember(t *testing.T) {
	d := opened(t, "")
	alike := d.wants("rm  -r 'origin' main", func(f *policies.Facts) { f.Args["description"] = "push it" })
	elsewhere := d.wants("rm -r origin main", func(f *policies.Facts) { f.Session = "s-TWO" })
	for _, tt := range []struct {
		name      string
		reply     Reply
		elsewhere bool // whether the yes is good for another session
		ends      time.Duration
	}{
		{"session", Reply{Yes: true, Scope: Session}, false, 24 * time.Hour},
		{"an hour", Reply{Yes: true, Scope: Hours, For: time.Hour}, true, time.Hour},
		{"the longest time", Reply{Yes: true, Scope: Hours}, true, 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := d.wants("rm -r origin main")
			a := d.asks(t, call)
			d.says(t, a.ID, tt.reply)
			for range 2 {
				if !d.uses(t, a.ID, call) || !d.uses(t, a.ID, alike) {
					t.Error("it is not good for calls that look the same")
				}
			}
			if b := d.asks(t, alike); b.ID != a.ID || b.State != Approved {
				t.Errorf("a call that looks the same gets %s", b.State)
			}
			if got := d.uses(t, a.ID, elsewhere); got != tt.elsewhere {
				t.Errorf("good in another session: %v, want %v", got, tt.elsewhere)
			}
			if d.uses(t, a.ID, d.wants("rm -r origin other")) {
				t.Error("it is good for other words")
			}
			d.pass(tt.ends)
			if d.uses(t, a.ID, call) {
				t.Error("it does not end")
			}
		})
	}
}

func TestWhatCannotBeRemembered(t *testing.T) {
	d := opened(t, "")
	for command, want := range map[string]string{
		"rm -r origin main":            "[once session hours]",
		"CI=1 rm -r && ls -l":          "[once session hours]",
		"rm -r $REMOTE":                "[once]",
		"rm -r; python3 x.py":          "[once]",
		"bash -c 'rm -r'":              "[once]",
		"timeout 5 rm -r":              "[once]",
		"env rm -r":                    "[once]",
		"rm -r | sh":                   "[once]",
		"make all && rm -r":            "[once]",
		"./x && rm -r":                 "[once]",
		"rm -r > log":                  "[once]",
		"rm -r <<E\nx\nE":              "[once]",
		"if true; then rm -r; fi":      "[once]",
		"f() { rm -r; }; f":            "[once]",
		"rm -r &":                      "[once]",
		"mail me":                      "[once]", // its rule allows a yes for one call only
		"rm -r origin main && mail me": "[once]",
	} {
		a := d.asks(t, d.wants(command))
		got := strings.Fields(strings.Trim(a.Offers(), " "))
		if text := "[" + strings.Join(names(a.Scopes), " ") + "]"; text != want {
			t.Errorf("%q: a yes can be for %s (%v), want %s", command, text, got, want)
		}
		if want == "[once]" {
			if _, err := d.Answer(t.Context(), a.ID, Reply{Yes: true, Scope: Session}); !errors.Is(err, ErrScope) {
				t.Errorf("%q: a yes for the session: got %v, want %v", command, err, ErrScope)
			}
		}
		d.says(t, a.ID, Reply{})
	}
	a := d.asks(t, d.wants("rm -r x"))
	if _, err := d.Answer(t.Context(), a.ID, Reply{Yes: true, Scope: Hours, For: 3 * time.Hour}); !errors.Is(err, ErrScope) {
		t.Errorf("a yes for longer than the policy lets: got %v, want %v", err, ErrScope)
	}
}

func names(scopes []Scope) (all []string) {
	for _, s := range scopes {
		all = append(all, string(s))
	}
	return all
}

func TestAnotherPolicyAsksAnew(t *testing.T) {
	d := opened(t, "")
	for i, reply := range []Reply{{Yes: true}, {Yes: true, Scope: Session}, {Yes: true, Scope: Hours}, {}} {
		command := "rm -r " + strings.Repeat("x", i+1)
		call := d.wants(command)
		a := d.asks(t, call)
		d.says(t, a.ID, reply)
		d.policy = parsed(t, policyText+"# changed\n")
		now := d.wants(command)
		if d.uses(t, a.ID, now) {
			t.Errorf("%+v: it is good under another policy", reply)
		}
		if b := d.asks(t, now); b.ID == a.ID || b.State != Pending {
			t.Errorf("%+v: under another policy the call gets %s, want a new question", reply, b.State)
		}
		d.policy = parsed(t, policyText)
	}
	hash := "x"
	e := opened(t, "", func(c *Config) { c.Policy = func() string { return hash } })
	a := e.asks(t, e.wants("rm -r"))
	if _, err := e.Answer(t.Context(), a.ID, Reply{Yes: true}); !errors.Is(err, ErrPolicy) {
		t.Errorf("a yes under another policy: got %v, want %v", err, ErrPolicy)
	}
	hash = e.policy.Hash()
	e.says(t, a.ID, Reply{Yes: true})
}

func TestPlacesDoNotShareAnswers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	here, there := opened(t, dir), opened(t, dir, func(c *Config) { c.Place = "/home/u/other" })
	call := here.wants("rm -r")
	a := here.asks(t, call)
	there.says(t, a.ID, Reply{Yes: true, Scope: Session}) // the answer may come through any server
	if there.uses(t, a.ID, call) || there.asks(t, call).ID == a.ID {
		t.Error("a yes of one workspace is good in another")
	}
	if !here.uses(t, a.ID, call) {
		t.Error("a yes that came by another server is not good")
	}
}

func TestRevoke(t *testing.T) {
	d := opened(t, "")
	call := d.wants("rm -r")
	a := d.asks(t, call)
	if _, err := d.Revoke(t.Context(), a.ID, "me", "command line"); !errors.Is(err, ErrOpen) {
		t.Errorf("revoke what nobody answered: got %v, want %v", err, ErrOpen)
	}
	d.says(t, a.ID, Reply{Yes: true, Scope: Session})
	for range 2 {
		if b, err := d.Revoke(t.Context(), a.ID, "me", "command line"); err != nil || b.State != Revoked {
			t.Errorf("revoke: %s, %v", b.State, err)
		}
	}
	if d.uses(t, a.ID, call) {
		t.Error("a yes that was revoked can be used")
	}
	if b := d.asks(t, call); b.ID != a.ID || b.State != Revoked {
		t.Errorf("asked again, it is %s, want revoked", b.State)
	}
}

func TestBounds(t *testing.T) {
	d := opened(t, "")
	for i := range maxPending {
		d.asks(t, d.wants("git push "+strings.Repeat("x", i+1)))
	}
	if _, _, err := d.Ask(t.Context(), d.wants("git push y")); !errors.Is(err, people.ErrTooMany) {
		t.Errorf("one question too many: got %v, want %v", err, people.ErrTooMany)
	}
	d.asks(t, d.wants("git push y", func(f *policies.Facts) { f.Tenant = "other" }))
	d.pass(10 * time.Minute)
	d.asks(t, d.wants("git push y"))
	long := d.wants("git push", func(f *policies.Facts) { f.Args["stdin"] = strings.Repeat("x", maxArgument) })
	if _, _, err := d.Ask(t.Context(), long); err == nil {
		t.Error("arguments without a bound are taken")
	}
}

func TestARestartKeepsQuestions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	before := opened(t, dir)
	call := before.wants("git push")
	a := before.asks(t, call)
	before.store.Close()
	after := opened(t, dir)
	if list, err := after.List(t.Context(), false); err != nil || len(list) != 1 || list[0].ID != a.ID {
		t.Errorf("after a restart %+v waits, %v, want %s", list, err, a.ID)
	}
	after.says(t, a.ID, Reply{Yes: true})
	if b := after.asks(t, call); b.ID != a.ID || !after.uses(t, b.ID, call) {
		t.Errorf("after a restart the call gets %s", b.State)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := store.New("")
		defer kept.Close()
		d := New(Config{Config: store.Config{Store: kept, Place: "/p"}})
		base := opened(t, "")
		call := base.wants("git push")
		a, asked, err := d.Ask(t.Context(), call)
		if err != nil || !asked {
			t.Fatalf("ask: %v, %v", asked, err)
		}
		began := time.Now()
		if b, err := d.Wait(t.Context(), a.ID, 20*time.Second); err != nil || b.State != Pending || time.Since(began) != 20*time.Second {
			t.Errorf("without an answer: %s, %v after %v, want pending after 20s", b.State, err, time.Since(began))
		}
		got := make(chan Approval)
		go func() {
			b, err := d.Wait(t.Context(), a.ID, time.Hour)
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
		synctest.Wait()
		began = time.Now()
		if _, err := d.Answer(t.Context(), a.ID, Reply{Yes: true, By: "me"}); err != nil {
			t.Fatal(err)
		}
		if b := <-got; b.State != Approved || time.Since(began) > 500*time.Millisecond {
			t.Errorf("answered: %s after %v", b.State, time.Since(began))
		}
		// Without an answer, the wait ends with the question.
		c, _, err := d.Ask(t.Context(), base.wants("git push 2"))
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if b, err := d.Wait(t.Context(), c.ID, time.Hour); err != nil || b.State != Expired || time.Since(began) > 10*time.Minute+500*time.Millisecond {
			t.Errorf("never answered: %s, %v after %v, want expired after 10 min", b.State, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		e, _, err := d.Ask(ctx, base.wants("git push 3"))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := d.Wait(ctx, e.ID, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestImages(t *testing.T) {
	d := opened(t, "")
	r := d.wants("", func(f *policies.Facts) {
		f.Tool, f.Paths, f.Args = "ReadImage", []string{"/workspace/a.png"}, map[string]any{"file_path": "/workspace/a.png"}
	})
	a := d.asks(t, r)
	if !slices.Contains(a.Scopes, Session) {
		t.Errorf("a call without a script can be remembered for %v", a.Scopes)
	}
	d.says(t, a.ID, Reply{Yes: true, Scope: Session})
	for range 2 {
		if !d.uses(t, a.ID, r) {
			t.Error("it is not good for the session")
		}
	}
}
