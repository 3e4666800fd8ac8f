package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// book is the audit log of a worker under test.
type book struct {
	mu     sync.Mutex
	newest Signed     // guarded by mu
	has    []Sighting // guarded by mu: of others
	asked  []Sighting // guarded by mu: to compare with
	full   bool       // guarded by mu: it keeps nothing more
}

// audit is a book for a worker; nil for one without.
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

func (b *book) Verify(_ context.Context, seen []Sighting) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = seen
	return json.Marshal(len(seen))
}

// of is what the book has of a worker, or of all.
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

// bound has the worker of a name keep an audit log.
func bound(r *rig, name string) (*mill, *book) {
	r.t.Helper()
	return again(r, name, r.cert(name, WorkerDNS(name)))
}

// again is bound with files that are there.
func again(r *rig, name string, files Credentials) (*mill, *book) {
	r.t.Helper()
	m := r.unlinkedOf(name, files, echo(name), &book{})
	r.until("a link of "+name, func() bool { l := r.front.roster.named(name); return l != nil && l.Process == m.process })
	return m, m.book
}

// sign has a worker say that it has a checkpoint.
func (m *mill) sign(text string) {
	m.book.mu.Lock()
	m.book.newest = Signed{"key of " + m.cfg.Name, text}
	m.book.mu.Unlock()
	m.Changed()
}

// Each checkpoint of a worker's audit log is kept by two other workers, once, also the last
// one of a worker that stops, and one that was there before they came.
func TestWitnesses(t *testing.T) {
	r := newRig(t, nil)
	one, _ := bound(r, "w1")
	one.sign("first")
	names := []string{"w3", "w2", "w4"} // the first has the highest digest of the first two
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
	one.Told(t.Context())
	one.stop()
	r.until("two witnesses of a worker that has stopped", func() bool { return len(keepers("last")) == 2 })
	total := 0
	for _, b := range others {
		total += len(b.of(""))
	}
	if total != 6 {
		t.Errorf("%d records of three checkpoints, want 6", total)
	}
	all, err := r.front.Audit(t.Context())
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
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
	if all, err = r.front.Audit(t.Context()); err != nil || all[0].Seen != 6 || string(all[0].Report) != "6" {
		t.Fatalf("%+v, %v", all, err)
	}
	back.book.mu.Lock()
	defer back.book.mu.Unlock()
	for _, s := range b.asked { // the front says by whom, not the witness
		if !slices.Contains(names, s.By) {
			t.Errorf("%+v", s)
		}
	}
}

// A witness that cannot keep a checkpoint is not the last: another worker keeps it.
func TestWitnessThatIsFull(t *testing.T) {
	r := newRig(t, nil)
	one, _ := bound(r, "w1")
	_, full := bound(r, "w2")
	full.mu.Lock()
	full.full = true
	full.mu.Unlock()
	one.sign("first")
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return strings.Contains(r.log.String(), "a witness does not keep") }) {
		t.Fatal("the front does not say that a witness keeps nothing")
	}
	_, other := bound(r, "w3")
	if !testenv.Until(40*time.Second*testenv.Patience(t), func() bool { return len(other.of("w1")) == 1 }) {
		t.Error("no other worker keeps the checkpoint")
	}
}

// What a front may send a worker for its audit log has bounds, and so has what a worker may
// say of its own.
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
		m.serve(rec, req)
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
	for i := range 4 * keepsMost {
		codes = append(codes, send(Sighting{"", "w2", Signed{"key", fmt.Sprint(i)}}))
	}
	if most := keepsMost * (2 + int(time.Since(began)/keepsEvery)); len(b.of("")) > most || time.Since(began) < keepsEvery && !slices.Contains(codes, http.StatusTooManyRequests) {
		t.Errorf("%d checkpoints are kept of %d, want at most %d", len(b.of("")), len(codes), most)
	}
	if s := (state{Signed: &Signed{"key", strings.Repeat("x", MaxSigned)}}); s.fits() {
		t.Error("a front takes a checkpoint of any size")
	}
	lone := httptest.NewRecorder()
	without := r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"))
	without.serve(lone, httptest.NewRequest(http.MethodPost, keptPath, http.NoBody))
	if lone.Code != http.StatusNotFound {
		t.Errorf("a worker without an audit log answers %d", lone.Code)
	}
}
