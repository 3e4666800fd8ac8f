package question

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/people"
	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func opened(t testing.TB, dir string) *Desk {
	t.Helper()
	s := store.New(dir)
	t.Cleanup(func() { s.Close() })
	return New(store.Config{Store: s, Place: "/p"})
}

func sheet(t testing.TB, text string) Sheet {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const twoQuestions = `{"questions":[{"text":"Which?","options":["A","B"]},{"id":"who","question":"Who?"}]}`

func TestTheFirstAnswerHolds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	kept := store.New(dir)
	d := New(store.Config{Store: kept, Place: "/p"})
	s := sheet(t, twoQuestions)
	a, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "s"}, s)
	if err != nil || !a.New {
		t.Fatalf("ask: %+v, %v", a, err)
	}
	if b, err := d.Ask(t.Context(), store.Owner{Tenant: "u", Session: "s"}, s); err != nil || b.ID == a.ID {
		t.Errorf("another tenant joins the question: %+v, %v", b, err)
	}
	kept.Close()

	d = opened(t, dir) // a restart while the question waits
	if b, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "other"}, s); err != nil || b.ID != a.ID || b.New {
		t.Errorf("the same again: %+v, %v", b, err)
	}
	for _, words := range []map[string][]string{{"q1": {"A", "B"}}, {"q9": {"A"}}, {}, {"who": {"x", "y"}}} {
		if _, err := d.Answer(t.Context(), a.ID, Reply{State: Accepted, Words: words}); !errors.Is(err, ErrAnswer) {
			t.Errorf("answer %v: %v, want that it does not fit", words, err)
		}
	}
	got, err := d.Answer(t.Context(), a.ID, Reply{State: Accepted, Words: map[string][]string{"q1": {"2"}, "who": {" me\x1b[2J "}}, By: "me", Via: "command line"})
	if err != nil || got.Answers["q1"].String() != "B" || got.Answers["who"].String() != "me\ufffd[2J" {
		t.Errorf("answer: %+v, %v", got, err)
	}
	if _, err := d.Answer(t.Context(), a.ID, Reply{State: Declined}); !errors.Is(err, ErrOver) {
		t.Errorf("a second answer: %v, want %v", err, ErrOver)
	}
	if b, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "s"}, s); err != nil || b.ID != a.ID || b.State != Accepted {
		t.Errorf("an answer that was not told: %+v, %v", b, err)
	}
	if err := d.Told(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if b, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "s"}, s); err != nil || b.ID == a.ID {
		t.Errorf("after it was told: %+v, %v, want another question", b, err)
	}
}

// TestLabelsBeforeNumbers checks that a label means its own option, also if it is the number
// of another one, or another one differs only in its case. Forms send labels.
func TestLabelsBeforeNumbers(t *testing.T) {
	s := sheet(t, `[{"text":"How many?","options":["3","1","2","x","X"]}]`)
	for word, want := range map[string]string{"3": "3", "1": "1", "2": "2", "x": "x", "X": "X", "4": "x", "5": "X"} {
		if got, err := s.Read(map[string][]string{"q1": {word}}); err != nil || got["q1"].String() != want {
			t.Errorf("%q: got %q, %v, want %q", word, got["q1"], err, want)
		}
	}
}

// TestSeveralTimes checks that a call with several times for a question is read in one way.
// An equal sheet that is put again joins the first.
func TestSeveralTimes(t *testing.T) {
	for range 50 {
		if s := sheet(t, `{"questions":[{"text":"?"}],"afkTimeoutMs":60000,"autoResolutionMs":70000,"timeout_ms":80000}`); s.Life != time.Minute {
			t.Fatalf("it waits for %s, want afkTimeoutMs", s.Life)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New("")
		defer s.Close()
		d := New(store.Config{Store: s, Place: "/p"})
		a, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "s"}, sheet(t, `{"questions":[{"text":"?"}],"afkTimeoutMs":60000}`))
		if err != nil {
			t.Fatal(err)
		}
		if a, err = d.Wait(t.Context(), a.ID, time.Hour); err != nil || a.State != TimedOut {
			t.Errorf("got %s, %v, want a timeout", a.State, err)
		}
	})
}

// TestWhatDoesNotFit checks the messages about questions and answers that are refused, as
// agents and people read them. Most other messages are in the golden files of the tool and
// of belljar ask.
func TestWhatDoesNotFit(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	var got strings.Builder
	for _, text := range []string{
		strings.Repeat("x", MaxJSON+1), `[{"text":"` + long + `"}]`, `[{"text":"?","options":["` + long + `"]}]`,
		`[{"text":"?","options":[{"label":"A","preview":"` + long + `"}]}]`,
	} {
		_, err := Parse(text)
		fmt.Fprintln(&got, err)
	}
	s := sheet(t, `[{"text":"?","options":["A","B"]}]`)
	for _, words := range []map[string][]string{{"q1": {"A", "B"}}, {"q2": {"A"}}, {"q1": {long}}} {
		_, err := s.Read(words)
		fmt.Fprintln(&got, err)
	}
	golden.Equal(t, "unfit.golden", got.String())
}

func TestBounds(t *testing.T) {
	d := opened(t, "")
	for i := range maxWaiting {
		if _, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "s"}, sheet(t, fmt.Sprintf(`[{"text":"%d?"}]`, i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Ask(t.Context(), store.Owner{Tenant: "t", Session: "s"}, sheet(t, `[{"text":"more?"}]`)); !errors.Is(err, people.ErrTooMany) {
		t.Errorf("one too many: %v, want %v", err, people.ErrTooMany)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(twoQuestions)
	f.Add(`[{"text":"?","type":"yesno"}]`)
	f.Add(`{"questions":[{"question":"?","multiSelect":true,"options":[{"label":"A (Recommended)","preview":"x\ny"},"B"]}],"autoResolutionMs":60000}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		for _, q := range s.Questions {
			if q.Text == "" || q.ID == "" || q.Kind == Choice && len(q.Options) == 0 {
				t.Errorf("%q: %+v", text, q)
			}
			for i, o := range q.Options {
				a, err := q.read([]string{fmt.Sprint(i + 1)})
				if err != nil || len(a.Selected) != 1 {
					t.Errorf("%q: option %q cannot be chosen: %+v, %v", text, o.Label, a, err)
				}
			}
		}
	})
}
