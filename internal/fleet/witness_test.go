package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// book is the audit log of a worker that is tested.
type book struct {
	mu     sync.Mutex
	newest Signed     // guarded by mu
	has    []Sighting // guarded by mu: checkpoints of other workers
	asked  []Sighting // guarded by mu: checkpoints of the last Verify
	keys   []string   // guarded by mu: keys of the last Verify
	full   bool       // guarded by mu: whether it refuses further checkpoints
}

// audit returns a book as an Audit; nil for a worker without a log.
func (b *book) audit() Audit {
	if b == nil {
		return nil
	}
	return b
}

func (b *book) Newest() Signed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

func (b *book) Keep(_ context.Context, worker string, s Signed) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		return errors.New("the disk is full")
	}
	b.has = append(b.has, Sighting{"somebody else", worker, s})
	return nil
}

func (b *book) Kept(context.Context) ([]Sighting, error) { return b.of(""), nil }

func (b *book) Verify(ctx context.Context, seen []Sighting, keys []string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked, b.keys = seen, keys
	return json.Marshal(len(seen))
}

// of returns the checkpoints of a worker, or of all workers for an empty name.
func (b *book) of(worker string) (all []Sighting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.has {
		if worker == "" || s.Worker == worker {
			all = append(all, s)
		}
	}
	return all
}

// bound links a worker with an audit log.
func bound(r *rig, name string) (*mill, *book) {
	r.t.Helper()
	return again(r, name, r.cert(name, WorkerDNS(name)))
}

// again is bound with existing files.
func again(r *rig, name string, files Credentials) (*mill, *book) {
	r.t.Helper()
	m := r.unlinkedOf(name, files, echo(name), &book{})
	r.until("a link of "+name, func() bool { l := r.front.roster.named(name); return l != nil && l.Process == m.process })
	return m, m.book
}

// sign makes a worker report a new checkpoint.
func (m *mill) sign(text string) {
	m.book.mu.Lock()
	m.book.newest = Signed{"key of " + m.cfg.Name, text}
	m.book.mu.Unlock()
	m.Changed()
}

// Each checkpoint of a worker's audit log is kept once by two other workers. This is also
// true for the last checkpoint of a worker that stops, and for a checkpoint that is older
// than the links of the others.
func TestWitnesses(t *testing.T) {
	r := newRig(t, nil)
	one, _ := bound(r, "w1")
	one.sign("first")
	names := []string{"w3", "w2", "w4"} // of the first two, the first has the higher digest
	others := make(map[string]*book)
	keepers := func(text string) (all []string) {
		for _, name := range names {
			if b := others[name]; b != nil && slices.Contains(b.of("w1"), Sighting{"somebody else", "w1", Signed{"key of w1", text}}) {
				all = append(all, name)
			}
		}
		return all
	}
	for i, name := range names[:2] {
		_, others[name] = bound(r, name)
		r.until("another witness", func() bool { return len(keepers("first")) == i+1 })
	}
	_, others["w4"] = bound(r, "w4")
	one.sign("second")
	r.until("two witnesses", func() bool { return len(keepers("second")) == 2 })
	one.sign("last")
	one.WaitAcknowledged(t.Context())
	one.stop()
	r.until("two witnesses of a worker that has stopped", func() bool { return len(keepers("last")) == 2 })
	total := 0
	for _, b := range others {
		total += len(b.of(""))
	}
	if total != 6 {
		t.Errorf("%d records of three checkpoints, want 6", total)
	}
	r.until("end of the link", func() bool { return r.front.roster.named("w1") == nil })
	all := r.front.Audit(t.Context())
	if len(all) != 4 {
		t.Fatalf("%+v", all)
	}
	for _, a := range all {
		switch {
		case a.Worker == "w1" && a.Seen == 6 && strings.Contains(a.Error, "not linked"):
		case a.Worker != "w1" && string(a.Report) == "0" && a.Error == "":
		default:
			t.Errorf("%+v", a)
		}
	}
	back, b := again(r, "w1", one.cfg.Credentials)
	if all = r.front.Audit(t.Context()); all[0].Seen != 6 || string(all[0].Report) != "6" {
		t.Fatalf("%+v", all)
	}
	back.book.mu.Lock()
	defer back.book.mu.Unlock()
	for _, s := range b.asked { // the name of the witness comes from the front, not from the witness
		if !slices.Contains(names, s.By) {
			t.Errorf("%+v", s)
		}
	}
}

// If a witness cannot keep a checkpoint, another worker keeps it.
func TestWitnessThatIsFull(t *testing.T) {
	r := newRig(t, nil)
	one, _ := bound(r, "w1")
	var others []*book
	for _, name := range []string{"w2", "w3", "w4", "w5"} {
		_, b := bound(r, name)
		others = append(others, b)
	}
	// The two workers that are asked first can keep nothing.
	l := r.front.roster.named("w1")
	for _, w := range r.front.roster.witnessesOf(l, nil, witnesses) {
		full := others[w.Name[1]-'2']
		full.mu.Lock()
		full.full = true
		full.mu.Unlock()
	}
	one.sign("first")
	if !testenv.Until(40*time.Second*testenv.Patience(t), func() bool {
		n := 0
		for _, b := range others {
			n += len(b.of("w1"))
		}
		return n == witnesses
	}) {
		t.Error("no other workers keep the checkpoint")
	}
	r.until("a line about the witness", func() bool { return strings.Contains(r.log.String(), "a witness does not keep") })
}

// A witness that is not linked any more is replaced, even if its worker has no newer
// checkpoint: there are always two witnesses that can be asked.
func TestWitnessThatIsGone(t *testing.T) {
	r := newRig(t, nil)
	one, _ := bound(r, "w1")
	mills, books := make(map[string]*mill), make(map[string]*book)
	for _, name := range []string{"w2", "w3", "w4"} {
		mills[name], books[name] = bound(r, name)
	}
	one.sign("first")
	have := func() (all []string) {
		for name, b := range books {
			if r.front.roster.named(name) != nil && len(b.of("w1")) > 0 {
				all = append(all, name)
			}
		}
		return all
	}
	r.until("two witnesses", func() bool { return len(have()) == witnesses })
	gone := have()[0]
	mills[gone].stop()
	r.until("another witness", func() bool { return !slices.Contains(have(), gone) && len(have()) == witnesses })
}

// The requests of a front about a worker's audit log are bounded, and so is what the worker
// may report about its own log.
func TestBoundsOfWitnesses(t *testing.T) {
	r := newRig(t, nil)
	m, b := bound(r, "w1")
	send := func(s Sighting) int {
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPost, keepPath, bytes.NewReader(body))
		rec := httptest.NewRecorder()
		m.serve(rec, overLink(req))
		return rec.Code
	}
	for name, s := range map[string]Sighting{
		"its own log":             {"", "w1", Signed{"key", "text"}},
		"no worker":               {"", "W 2", Signed{"key", "text"}},
		"a checkpoint of 64 KiB":  {"", "w2", Signed{"key", strings.Repeat("x", 64<<10)}},
		"a key that is too large": {"", "w2", Signed{strings.Repeat("x", MaxSigned), "text"}},
	} {
		if code := send(s); code != http.StatusBadRequest {
			t.Errorf("%s: %d, want %d", name, code, http.StatusBadRequest)
		}
	}
	var codes []int
	began := time.Now()
	for i := range 4 * checkpointMost {
		codes = append(codes, send(Sighting{"", "w2", Signed{"key", fmt.Sprint(i)}}))
	}
	if most := checkpointMost * (2 + int(time.Since(began)/checkpointEvery)); len(b.of("")) > most || time.Since(began) < checkpointEvery && !slices.Contains(codes, http.StatusTooManyRequests) {
		t.Errorf("%d checkpoints are kept of %d, want at most %d", len(b.of("")), len(codes), most)
	}
	if s := (state{Signed: &Signed{"key", strings.Repeat("x", MaxSigned)}}); s.fits() {
		t.Error("a front takes a checkpoint of any size")
	}
	lone := httptest.NewRecorder()
	without := r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"))
	without.serve(lone, overLink(httptest.NewRequest(http.MethodPost, keptPath, http.NoBody)))
	if lone.Code != http.StatusNotFound {
		t.Errorf("a worker without an audit log answers %d", lone.Code)
	}
}

// A worker that does not answer the front's own requests, and a worker whose answer is too
// large, are named, and the other logs are still compared.
func TestAuditWithoutSome(t *testing.T) {
	r := newRig(t, nil)
	one, _ := bound(r, "w1")
	_, honest := bound(r, "w2")
	_, hostile := bound(r, "w3")
	one.sign("first")
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return len(hostile.of("w1")) == 1 && len(honest.of("w1")) == 1 }) {
		t.Fatal("no witnesses")
	}
	silent := r.silent("w4")
	hostile.mu.Lock()
	for i := range 2 * MaxKept {
		hostile.has = append(hostile.has, Sighting{"", "w2", Signed{"key", fmt.Sprint(i)}})
	}
	hostile.mu.Unlock()
	r.front.audits.kept = 2 * time.Second * testenv.Patience(t)
	all := r.front.Audit(t.Context())
	if len(all) != 4 {
		t.Fatalf("%+v", all)
	}
	for _, a := range all {
		switch a.Worker {
		case "w1":
			if string(a.Report) != "2" || a.Error != "" || a.Unheard != "" {
				t.Errorf("%+v", a)
			}
		case "w3":
			if a.Report == nil || !strings.Contains(a.Unheard, "more than 256 checkpoints of worker w2") {
				t.Errorf("%+v", a)
			}
		case "w4":
			if a.Report != nil || !strings.Contains(a.Error, "it does not answer") || !strings.Contains(a.Unheard, "it does not answer") {
				t.Errorf("%+v", a)
			}
		}
	}
	silent()
	r.front.audits.keptAll = 0
	for _, a := range r.front.Audit(t.Context()) {
		if !strings.Contains(a.Unheard, "no time left") {
			t.Errorf("worker %s was not asked what it has kept, and is said to know no more: %+v", a.Worker, a)
		}
	}
}

// Many hostile witnesses that send as many checkpoints of one log as allowed do not
// displace the checkpoints of an honest witness, whatever their names are.
func TestHostileWitnessesDisplaceNothing(t *testing.T) {
	const hostile = 4 * maxOneLog / (MaxKept * MaxSigned)
	large := Signed{"key", strings.Repeat("x", MaxSigned-3)}
	shown := make([][]Sighting, hostile+1)
	for i := range hostile {
		for range MaxKept {
			shown[i] = append(shown[i], Sighting{fmt.Sprint("a", i), "w1", large})
		}
	}
	for i := range 64 {
		shown[hostile] = append(shown[hostile], Sighting{"z", "w1", Signed{"key", fmt.Sprint("honest", i)}})
	}
	shown[0] = append(shown[0], Sighting{"a0", "w2", large})
	seen, cut := compared(shown)
	size, honest := 0, 0
	for _, s := range seen["w1"] {
		if size += s.size(); s.By == "z" {
			honest++
		}
	}
	if honest != 64 {
		t.Errorf("%d of 64 checkpoints of the honest witness are compared", honest)
	}
	if size > maxOneLog || size < maxOneLog*9/10 {
		t.Errorf("%d bytes are compared, want most of %d", size, maxOneLog)
	}
	if len(seen["w2"]) != 1 {
		t.Error("a witness with too much of one log has lost what it has of another one")
	}
	if _, said := cut[hostile]; said || len(cut) != hostile || !strings.Contains(cut[0], "of worker w1 that it keeps are compared") {
		t.Errorf("of %d witnesses %d are said to have shown too much", hostile+1, len(cut))
	}
}

// If the checkpoints of a witness are cut for several logs, the reason says how many logs
// these are.
func TestSeveralLogsOfAWitnessAreCut(t *testing.T) {
	const enough = 2*maxOneLog/(MaxKept*MaxSigned) + 1
	large := Signed{"key", strings.Repeat("x", MaxSigned-3)}
	shown := make([][]Sighting, enough)
	for i := range shown {
		for _, log := range []string{"w3", "w1", "w2"}[:min(3, i+1)] {
			for range MaxKept {
				shown[i] = append(shown[i], Sighting{fmt.Sprint("a", i), log, large})
			}
		}
	}
	_, cut := compared(shown)
	for i, want := range []string{"of worker w3 that it keeps are compared", "of 2 workers, the first of them w1, that it keeps are compared", "of 3 workers, the first of them w1, that it keeps are compared"} {
		if !strings.Contains(cut[i], want) {
			t.Errorf("of witness %d it is said %q, want %q", i, cut[i], want)
		}
	}
}

// Each of several users gets a fair share of a resource, and nothing is left over while a
// user wants more.
func TestFairShareProperty(t *testing.T) {
	n, random := testenv.Cases(t, 500)
	for range n {
		wanted := make([]int, 1+random.IntN(8))
		all := 0
		for i := range wanted {
			wanted[i] = random.IntN(100)
			all += wanted[i]
		}
		most := random.IntN(400)
		each, taken := fairShare(slices.Clone(wanted), most), 0
		for _, w := range wanted {
			taken += min(w, each)
		}
		if taken > most || taken < min(all, most-len(wanted)+1) {
			t.Fatalf("%v of %d: each gets at most %d, which are %d together", wanted, most, each, taken)
		}
	}
}

// The answer of a witness is read with bounds: a list of many small elements is not decoded
// completely.
func TestKeptIsBounded(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	for name, text := range map[string]string{
		"no checkpoints":      "[" + strings.Repeat("{},", 1<<20) + "{}]",
		"of itself":           `[{"worker":"w1","key":"k","checkpoint":"c"}]`,
		"no list":             `{"worker":"w2"}`,
		"a long one":          `[{"worker":"w2","key":"` + strings.Repeat("k", maxSighting) + `"}]`,
		"more than its share": "[" + strings.TrimSuffix(strings.Repeat(`{"worker":"w2","key":"k","checkpoint":"`+strings.Repeat("c", 1000)+`"},`, 200), ",") + "]",
	} {
		r.answers = func(w http.ResponseWriter, req *http.Request, next http.HandlerFunc) {
			if req.URL.Path != keptPath {
				next(w, req)
				return
			}
			_, _ = w.Write([]byte(text))
		}
		m := r.worker("w1", files, echo("w1"))
		all, err := r.front.roster.named("w1").kept(t.Context(), 100<<10)
		if err == nil || len(all) > 100 {
			t.Errorf("%s: %d, %v", name, len(all), err)
		}
		m.stop()
		r.until("the end of the link", func() bool { return r.front.roster.named("w1") == nil })
	}
}

// silent links a worker that answers only the request for its state.
func (r *rig) silent(name string) (stop func()) {
	r.t.Helper()
	over := make(chan struct{})
	r.answers = func(w http.ResponseWriter, req *http.Request, next http.HandlerFunc) {
		if req.URL.Path == statePath {
			next(w, req)
			return
		}
		select {
		case <-over:
		case <-req.Context().Done():
		}
	}
	defer func() { r.answers = nil }()
	r.worker(name, r.cert(name, WorkerDNS(name)), echo(name))
	return func() { close(over) }
}

// The keys of a worker are those that it has reported over its own link, and the front
// still has them after a restart. A worker that reports another key each time cannot fill
// the memory.
func TestKeysOfWorkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	open := func() *Keys {
		k, err := OpenKeys(path)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	r := newRig(t, func(cfg *FrontConfig) { cfg.Keys = open() })
	one, b := bound(r, "w1")
	one.sign("first")
	r.until("its key", func() bool { return len(open().of("w1")) == 1 })
	r.front.Audit(t.Context())
	b.mu.Lock()
	if !slices.Equal(b.keys, []string{"key of w1"}) {
		t.Errorf("the worker is told of %q", b.keys)
	}
	b.mu.Unlock()
	k := open()
	for i := range 2 * maxKeysOf {
		if err := k.note("w1", fmt.Sprint("key", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"", strings.Repeat("x", maxKey+1)} {
		if err := k.note("w9", key); err != nil || k.of("w9") != nil {
			t.Errorf("%.9q: %q, %v", key, k.of("w9"), err)
		}
	}
	if all := open().of("w1"); len(all) != maxKeysOf || all[0] != "key of w1" {
		t.Errorf("%q", all)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeys(path); err == nil || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("a damaged file: %v", err)
	}
	if (*Keys)(nil).note("w1", "key") != nil || (*Keys)(nil).of("w1") != nil {
		t.Error("no keys know something")
	}
}
