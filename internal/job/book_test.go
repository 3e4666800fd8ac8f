package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/store"
)

const place = "/project"

var (
	one   = store.Owner{Tenant: "local", Session: "s-1"}
	two   = store.Owner{Tenant: "local", Session: "s-2"}
	other = store.Owner{Tenant: "other", Session: "s-3"}
)

// opened returns the book of the process self. The book's store is closed at the end of the
// test.
func opened(t testing.TB, dir, self string, change ...func(*Config)) *Book {
	t.Helper()
	s := store.New(dir)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	cfg := Config{Config: store.Config{Store: s, Place: place, Self: self}, Dir: filepath.Join(dir, "jobs")}
	for _, f := range change {
		f(&cfg)
	}
	return New(cfg)
}

// begin opens a job that has written a text.
func begin(t testing.TB, b *Book, o store.Owner, output, text string) Job {
	t.Helper()
	j, err := b.Open(t.Context(), o, Job{Tool: "BackgroundBash", Command: "make " + output, Description: "builds", Output: output})
	if err != nil {
		t.Fatal(err)
	}
	spool, err := b.Spool(j)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spool.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := spool.Close(); err != nil {
		t.Fatal(err)
	}
	return j
}

func end(t testing.TB, b *Book, j Job, size int64) {
	t.Helper()
	code := 0
	if err := b.End(t.Context(), j, "exited", End{Code: &code, Wall: time.Second}, size); err != nil {
		t.Fatal(err)
	}
}

// content returns the part of a job's output that is kept.
func content(t testing.TB, b *Book, j Job) string {
	t.Helper()
	o, err := b.Output(j)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	text, _, _, err := o.Read(0, MaxOutput)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ids returns the numbers and statuses of the jobs that an owner sees.
func ids(t testing.TB, b *Book, o store.Owner) string {
	t.Helper()
	all, _, err := b.List(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, j := range all {
		said = append(said, fmt.Sprint(j.ID, " ", j.Status))
	}
	return strings.Join(said, ", ")
}

func TestNothingIsMadeToList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	b := opened(t, dir, "me")
	if got := ids(t, b, one); got != "" {
		t.Errorf("got %s, want nothing", got)
	}
	if err := b.Release(t.Context(), one); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state was made: %v", err)
	}
}

// A job is seen by its session, then by its tenant's sessions, and never by another tenant.
func TestWhoSees(t *testing.T) {
	var said []string
	b := opened(t, filepath.Join(t.TempDir(), "st"), "me", func(c *Config) {
		c.Ended = func(j Job) { said = append(said, fmt.Sprint(j.ID, " ", j.Status)) }
	})
	first := begin(t, b, one, "aaaaaaaa", "first\n")
	second := begin(t, b, one, "bbbbbbbb", "second\n")
	foreign := begin(t, b, other, "cccccccc", "")
	if first.ID != 1 || second.ID != 2 || foreign.ID != 1 || len(first.Handle) < 20 {
		t.Errorf("got %+v, %+v, %+v, want numbers of their own from 1 and handles", first, second, foreign)
	}
	end(t, b, first, 6)
	if err := b.End(t.Context(), first, "killed", End{}, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("a second end: got %v, want %v", err, ErrUnknown)
	}
	for o, want := range map[store.Owner]string{one: "1 exited, 2 running", two: "", other: "1 running"} {
		if got := ids(t, b, o); got != want {
			t.Errorf("%v sees %q, want %q", o, got, want)
		}
	}
	unseen := func(o store.Owner, j Job) {
		t.Helper()
		_, byID := b.Find(t.Context(), o, j.ID+1000)
		_, byHandle := b.ByHandle(t.Context(), o, j.Handle)
		_, byOutput := b.ByOutput(t.Context(), o, j.Output)
		for _, err := range []error{byID, byHandle, byOutput} {
			if !errors.Is(err, ErrUnknown) {
				t.Errorf("%v asks for job %d of %v: got %v, want %v", o, j.ID, j.Owner, err, ErrUnknown)
			}
		}
	}
	unseen(two, first)
	unseen(other, first)
	unseen(one, foreign)

	if err := b.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if got, want := ids(t, b, two), "1 exited, 2 lost"; got != want {
		t.Errorf("the next session sees %q, want %q", got, want)
	}
	unseen(other, first)
	if want := []string{"1 exited", "2 lost"}; !cmp.Equal(said, want) {
		t.Errorf("ended: %v, want %v", said, want)
	}
}

// Back moves the cursor of a job only backward.
func TestBack(t *testing.T) {
	b := opened(t, filepath.Join(t.TempDir(), "st"), "self")
	j := begin(t, b, one, "aaaaaaaa", "all of it\n")
	for _, step := range []struct {
		to   func(context.Context, Job, int64) error
		at   int64
		want int64
	}{{b.Move, 4, 4}, {b.Move, 9, 9}, {b.Back, 4, 4}, {b.Back, 6, 4}, {b.Back, 0, 0}} {
		if err := step.to(t.Context(), j, step.at); err != nil {
			t.Fatal(err)
		}
		all, _, err := b.List(t.Context(), one)
		if err != nil || len(all) != 1 || all[0].Cursor != step.want {
			t.Errorf("after %d: got %+v, %v, want the cursor at %d", step.at, all, err, step.want)
		}
	}
}

// After a restart, the running jobs of the old process are lost, and all other jobs are
// kept.
func TestARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	before := opened(t, dir, "before")
	done := begin(t, before, one, "aaaaaaaa", "all of it\n")
	end(t, before, done, 10)
	if err := before.Move(t.Context(), done, 4); err != nil {
		t.Fatal(err)
	}
	begin(t, before, one, "bbbbbbbb", "as far as it came\n")
	call, err := before.Open(t.Context(), one, Job{Tool: "WebSearch"})
	if err != nil {
		t.Fatal(err)
	}
	over, err := before.Open(t.Context(), one, Job{Tool: "WebSearch"})
	if err == nil {
		err = before.Answer(t.Context(), over.Handle, "completed", Answer(`{"result":{}}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Create(filepath.Join(dir, "jobs", "nobodys1")); err != nil {
		t.Fatal(err)
	}

	var said []string
	var log strings.Builder
	after := opened(t, dir, "after", func(c *Config) {
		c.Ended = func(j Job) { said = append(said, fmt.Sprint(j.ID, " ", j.Status)) }
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	if err := after.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "a background task was lost: what ran it has ended\" task=2 tenant=local") {
		t.Errorf("the log of what starts after it says %q", got)
	}
	if got, want := ids(t, after, two), "1 exited, 2 lost"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ids(t, after, other); got != "" {
		t.Errorf("another tenant sees %q", got)
	}
	if want := []string{"2 lost"}; !cmp.Equal(said, want) {
		t.Errorf("ended: %v, want %v", said, want)
	}
	j, err := after.Find(t.Context(), two, 1)
	if err != nil || j.Cursor != 4 || j.Size != 10 || *j.End.Code != 0 || j.Description != "builds" || content(t, after, j) != "all of it\n" {
		t.Errorf("what had ended: got %+v, %v", j, err)
	}
	if j, err = after.Find(t.Context(), two, 2); err != nil || j.Size != 18 || content(t, after, j) != "as far as it came\n" || j.Ended.IsZero() {
		t.Errorf("what ran: got %+v, %v", j, err)
	}
	if j, err = after.ByHandle(t.Context(), two, call.Handle); err != nil || j.Status != Lost {
		t.Errorf("a call: got %+v, %v, want it lost", j, err)
	}
	if j, err = after.ByHandle(t.Context(), two, over.Handle); err != nil || j.Status != Over || j.Answered != "completed" {
		t.Errorf("a call that had returned: got %+v, %v", j, err)
	}
	if a, err := after.AnswerOf(t.Context(), j); err != nil || string(a) != `{"result":{}}` {
		t.Errorf("its answer: got %s, %v", a, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "jobs", "nobodys1")); !os.IsNotExist(err) {
		t.Errorf("an output of nobody's is there: %v", err)
	}
	if j, err := after.Open(t.Context(), two, Job{Command: "true"}); err != nil || j.ID != 5 {
		t.Errorf("the next one: got %+v, %v, want number 5", j, err)
	}
}

// A running process keeps its jobs, whichever other process lists them.
func TestTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	lives := func(c *Config) { c.Alive = func(string) bool { return true } }
	a, b := opened(t, dir, "a", lives), opened(t, dir, "b", lives)
	j := begin(t, a, one, "aaaaaaaa", "x")
	if got := ids(t, b, two); got != "" {
		t.Errorf("a session of the other process sees %q", got)
	}
	end(t, a, j, 1)
	if err := a.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, b, two); got != "1 exited" {
		t.Errorf("once the session is over: %q", got)
	}
}

// A server that was handed over ends its sessions, while sessions with the same IDs
// continue in the next server. Jobs that run in the next server are not lost.
func TestASessionGoesOnInAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	lives := func(c *Config) { c.Alive = func(string) bool { return true } }
	before, next := opened(t, dir, "before", lives), opened(t, dir, "next", lives)
	begin(t, before, one, "aaaaaaaa", "x")
	begin(t, next, one, "bbbbbbbb", "x")
	if err := before.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, next, one); got != "1 lost, 2 running" {
		t.Errorf("the session that goes on sees %q", got)
	}
	if got := ids(t, next, two); got != "1 lost" {
		t.Errorf("the next session of the tenant sees %q", got)
	}
}

// Ended jobs are removed to make room, by number, age and bytes, and the removal is
// reported.
func TestForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	clock := time.Now()
	b := opened(t, dir, "me", func(c *Config) { c.Now = func() time.Time { return clock } })
	name := func(i int) string { return fmt.Sprintf("output%04d", i) }
	for i := range MaxEnded + 3 {
		end(t, b, begin(t, b, one, name(i), "x"), 1)
		clock = clock.Add(time.Second)
	}
	begin(t, b, one, name(1000), "runs")
	all, gone, err := b.List(t.Context(), one)
	if err != nil || len(all) != MaxEnded+1 || all[0].ID != 4 || gone.Jobs != 3 {
		t.Errorf("got %d jobs from %d on, %+v forgotten, %v", len(all), all[0].ID, gone, err)
	}
	for i, want := range map[int]bool{0: false, 2: false, 3: true} {
		if _, err := os.Stat(filepath.Join(dir, "jobs", name(i))); (err == nil) != want {
			t.Errorf("output %d: %v, want there: %v", i, err, want)
		}
	}

	clock = clock.Add(MaxAge)
	call, err := b.Open(t.Context(), one, Job{Tool: "WebSearch"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ids(t, b, one), fmt.Sprint(MaxEnded+4, " running"); got != want {
		t.Errorf("a week later: got %q, want %q", got, want)
	}
	if err := b.Answer(t.Context(), call.Handle, "completed", make(Answer, MaxAnswer+1)); !errors.Is(err, ErrLarge) {
		t.Errorf("too large an answer: got %v, want %v", err, ErrLarge)
	}
	for i := range MaxBytes/MaxOutput + 2 {
		end(t, b, begin(t, b, one, name(2000+i), "x"), MaxOutput+1)
		clock = clock.Add(time.Second)
	}
	begin(t, b, one, name(3000), "")
	if all, _, err = b.List(t.Context(), one); err != nil || len(all) != MaxBytes/MaxOutput+2 {
		t.Errorf("by bytes: got %d jobs, %v, want %d and two that run", len(all), err, MaxBytes/MaxOutput)
	}
	for i := range MaxBytes/MaxOutput - 1 {
		j := begin(t, b, other, name(4000+i), "x")
		end(t, b, j, MaxOutput)
		if i > 0 {
			continue
		}
		answer := Answer(strings.Repeat("ä", MaxOutput/2+1)) // one byte more than fits
		if err := b.Answer(t.Context(), j.Handle, "completed", answer); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(time.Second)
	}
	begin(t, b, other, name(5000), "")
	if got, want := ids(t, b, other)[:1], "2"; got != want {
		t.Errorf("with an answer: the oldest is %s, want %s", got, want)
	}
}

func TestTooMany(t *testing.T) {
	b := opened(t, filepath.Join(t.TempDir(), "st"), "me")
	for range maxRunning {
		if _, err := b.Open(t.Context(), one, Job{Command: "sleep"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Open(t.Context(), one, Job{Command: "sleep"}); !errors.Is(err, ErrMany) {
		t.Errorf("got %v, want %v", err, ErrMany)
	}
	for before := range 3 {
		for after := range 3 {
			command := strings.Repeat("a", maxCommand-before) + "ä" + strings.Repeat("b", after)
			j, err := b.Open(t.Context(), other, Job{Command: command})
			if err != nil || len(j.Command) > maxCommand || len(j.Command) < maxCommand-1 || !strings.HasPrefix(command, j.Command) || !utf8.ValidString(j.Command) {
				t.Errorf("another tenant's, with a long command: %d bytes to %q, %v", len(j.Command), j.Command[maxCommand-2:], err)
			}
		}
	}
}

func BenchmarkOpenAndEnd(b *testing.B) {
	book := opened(b, filepath.Join(b.TempDir(), "st"), "me")
	for b.Loop() {
		j, err := book.Open(b.Context(), one, Job{Command: "true"})
		if err != nil {
			b.Fatal(err)
		}
		end(b, book, j, 0)
	}
}
