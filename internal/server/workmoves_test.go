package server

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/placefile"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
)

// mover is a worker whose places move. The test takes the part of the front.
type mover struct {
	*movers

	t *testing.T
}

func openMover(t *testing.T, dir, policy string) (*Server, *mover) {
	t.Helper()
	s, err := Open(t.Context(), Config{
		Command: "work", Policy: policy, Log: slog.New(slog.DiscardHandler), Tools: &Tools{},
		Service: &Service{Link: &Link{Name: "w1", Places: dir}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, &mover{s.places.moves, t}
}

// taken takes a step of place a, which must succeed. refused takes a step that must be
// refused.
func (m *mover) taken(s fleet.Step, mark claims.Mark) {
	m.t.Helper()
	if err := m.step(s, "a", mark); err != nil {
		m.t.Errorf("%s %+v: %v", s, mark, err)
	}
}

func (m *mover) refused(s fleet.Step, place string, mark claims.Mark) {
	m.t.Helper()
	err := m.step(s, place, mark)
	if _, final := errors.AsType[*fleet.Refusal](err); !final {
		m.t.Errorf("%s %s %+v: %v, want a refusal", s, place, mark, err)
	}
}

func (m *mover) step(s fleet.Step, place string, mark claims.Mark) error {
	if s == fleet.StepPack {
		return m.Pack(m.t.Context(), fleet.Marked{Place: place, Mark: mark}, io.Discard)
	}
	_, err := m.Do(m.t.Context(), s, fleet.Marked{Place: place, Mark: mark})
	return err
}

// receives makes the worker read a stream, and reports whether it succeeds.
func (m *mover) receives(place string, mark claims.Mark, stream []byte) bool {
	return m.Receive(m.t.Context(), fleet.Marked{Place: place, Mark: mark}, bytes.NewReader(stream), func() {}) == nil
}

// open reports whether requests can enter place a.
func (m *mover) open() bool {
	leave, ok := m.enter("a")
	if ok {
		leave()
	}
	return ok
}

// Steps that arrive late, twice, or for another move do nothing. A frozen place stays
// closed after a restart. The name of a place that a front sends leads to no other
// directory.
func TestLateSteps(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	// With brackets, so that the test fails if the name is read as a pattern of file names.
	dir, policy := filepath.Join(t.TempDir(), "w[1]"), filepath.Join(t.TempDir(), "p.yaml")
	put(t, policy, "version: 1\ndefaults: {decision: allow, profile: offline}\nprofiles: {offline: {fs: {system: true, workspace: rw}}}\ntenants: {a: {places: [site]}}\n")
	s, m := openMover(t, dir, policy)
	defer func() { s.Close() }()
	if err := s.places.claim(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "places/a/@/workspace/file")
	put(t, file, "kept")
	to := func(move uint64) claims.Mark { return claims.Mark{Move: move, To: "w2"} }
	from := func(move uint64) claims.Mark { return claims.Mark{Move: move, From: "w2"} }

	m.taken(fleet.StepFreeze, to(3))
	m.taken(fleet.StepFreeze, to(3))
	m.refused(fleet.StepFreeze, "a", to(2))
	m.refused(fleet.StepDrop, "a", to(2))
	m.refused(fleet.StepPack, "a", to(2))
	m.refused(fleet.StepPack, "a", claims.Mark{})
	m.taken(fleet.StepThaw, to(2)) // this move has ended, so nothing changes
	if err := s.places.claim(t.Context(), "a"); m.open() || len(s.places.ids()) > 0 || !errors.Is(err, fleet.ErrBusy) {
		t.Errorf("a frozen place is open: %v, %v, %v", m.open(), s.places.ids(), err)
	}
	if _, err := s.places.at(t.Context(), filepath.Join(dir, "places/a/@/workspace")); !errors.Is(err, errFrozen) {
		t.Errorf("a frozen place is opened: %v", err)
	}
	s.Close()
	s, m = openMover(t, dir, policy)
	if m.open() || !slices.Equal(m.list(), []fleet.Marked{{Place: "a", Mark: to(3)}}) {
		t.Errorf("after a restart: open %v, %+v", m.open(), m.list())
	}
	m.taken(fleet.StepThaw, to(3))
	if !m.open() || len(m.list()) > 0 {
		t.Errorf("a place that stays: open %v, %+v", m.open(), m.list())
	}
	m.refused(fleet.StepFreeze, "a", to(3))
	m.refused(fleet.StepDrop, "a", to(3))
	m.refused(fleet.StepPack, "a", to(3))
	if m.receives("a", from(9), nil) {
		t.Error("a copy of a place that is here")
	}

	m.taken(fleet.StepFreeze, to(4))
	var stream bytes.Buffer
	if err := m.Pack(t.Context(), fleet.Marked{Place: "a", Mark: to(4)}, &stream); err != nil {
		t.Fatal(err)
	}
	m.taken(fleet.StepDrop, to(4))
	m.taken(fleet.StepDrop, to(4))
	if _, err := os.Lstat(filepath.Join(dir, "places/a/@")); err == nil || m.open() {
		t.Error("a place that has gone is there")
	}
	if m.receives("a", from(4), stream.Bytes()) || m.receives("a", from(3), stream.Bytes()) {
		t.Error("a copy of a move that is over")
	}
	if m.receives("a/site", from(5), stream.Bytes()) {
		t.Error("a copy of another place")
	}
	if m.receives("a", from(5), stream.Bytes()[:stream.Len()-9]) {
		t.Error("a copy that is cut off")
	}
	if !m.receives("a", from(5), stream.Bytes()) || !m.receives("a", from(5), nil) {
		t.Error("a copy is refused")
	}
	if err := s.places.claim(t.Context(), "a"); m.open() || !errors.Is(err, fleet.ErrBusy) {
		t.Errorf("a copy that is not in use: %v, made anew: %v", m.open(), err)
	}
	m.refused(fleet.StepTake, "a", from(4))
	m.taken(fleet.StepDiscard, from(4)) // this move has ended, so nothing changes
	m.taken(fleet.StepTake, from(5))
	m.taken(fleet.StepTake, from(5))
	m.taken(fleet.StepDiscard, from(5)) // the copy is in use
	text, err := os.ReadFile(file)
	if !m.open() || string(text) != "kept" || err != nil {
		t.Errorf("a place that came: open %v, %q, %v", m.open(), text, err)
	}
	for _, name := range []string{"", "..", "../..", "a/..", "a/../b", "a/@", "A", "a/", "a//site"} {
		for _, step := range []fleet.Step{fleet.StepLook, fleet.StepFreeze, fleet.StepPack, fleet.StepTake, fleet.StepDrop, fleet.StepThaw, fleet.StepDiscard} {
			m.refused(step, name, to(9))
		}
		if m.receives(name, from(9), stream.Bytes()) {
			t.Errorf("a place called %q comes", name)
		}
	}
}

// If the policy requires the audit log, no step is taken that cannot be recorded: no place
// leaves, arrives or changes.
func TestMovesWithoutALog(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir, policy := t.TempDir(), filepath.Join(t.TempDir(), "p.yaml")
	put(t, policy, "version: 1\naudit: {required: true}\ndefaults: {decision: allow, profile: offline}\nprofiles: {offline: {fs: {system: true, workspace: rw}}}\ntenants: {a: {places: [site]}}\n")
	to := func(move uint64) claims.Mark { return claims.Mark{Move: move, To: "w2"} }
	from := func(move uint64) claims.Mark { return claims.Mark{Move: move, From: "w2"} }
	var stream bytes.Buffer
	for _, tt := range []struct {
		step    fleet.Step
		mark    claims.Mark
		prepare func(m *mover)
	}{
		{fleet.StepFreeze, to(1), func(*mover) {}},
		{fleet.StepPack, claims.Mark{}, func(*mover) {}},
		{fleet.StepThaw, to(2), func(m *mover) { m.taken(fleet.StepFreeze, to(2)) }},
		{fleet.StepDrop, to(3), func(m *mover) {
			m.taken(fleet.StepFreeze, to(3))
			if err := m.Pack(t.Context(), fleet.Marked{Place: "a", Mark: to(3)}, &stream); err != nil {
				t.Error(err)
			}
		}},
		{fleet.StepTake, from(4), func(m *mover) {
			if !m.receives("a", from(4), stream.Bytes()) {
				t.Error("a copy is refused")
			}
		}},
	} {
		s, m := openMover(t, dir, policy)
		if tt.step == fleet.StepFreeze {
			if err := s.places.claim(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		}
		tt.prepare(m)
		before, open := m.list(), m.open()
		if err := s.audit.log.Close(); err != nil {
			t.Error(err)
		}
		if err := m.step(tt.step, "a", tt.mark); !errors.Is(err, audit.ErrClosed) {
			t.Errorf("%s without a log: %v", tt.step, err)
		}
		if !slices.Equal(m.list(), before) || m.open() != open {
			t.Errorf("%s without a log: %+v, open %v, before %+v and %v", tt.step, m.list(), m.open(), before, open)
		}
		s.Close()
		// With a log, the step succeeds.
		s, m = openMover(t, dir, policy)
		m.taken(tt.step, tt.mark)
		if tt.step == fleet.StepFreeze {
			m.taken(fleet.StepThaw, tt.mark)
		}
		s.Close()
	}
}

// A place whose boxes cannot be closed stays closed, and is neither packed nor removed: the
// boxes could still change it. Once they are gone, the place can be opened or moved again.
func TestUnclosedPlaces(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir, policy := t.TempDir(), filepath.Join(t.TempDir(), "p.yaml")
	put(t, policy, "version: 1\ndefaults: {decision: allow, profile: offline}\nprofiles: {offline: {fs: {system: true, workspace: rw}}}\ntenants: {a: {places: [site]}}\n")
	s, m := openMover(t, dir, policy)
	defer s.Close()
	workspace := filepath.Join(dir, "places/a/@/workspace")
	if err := s.places.claim(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	to := func(move uint64) claims.Mark { return claims.Mark{Move: move, To: "w2"} }
	// stray opens a box that no session closes.
	stray := func() *sandbox.Box {
		p, err := s.places.at(t.Context(), workspace)
		if err != nil {
			t.Fatal(err)
		}
		d := p.gate.Decide(policies.Facts{Tenant: "a", Tool: "Bash", Command: "true"})
		b, err := p.boxes.Open(t.Context(), "stray", d.Grant)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	fails := func(s fleet.Step, mark claims.Mark) {
		t.Helper()
		if err := m.step(s, "a", mark); err == nil || !strings.Contains(err.Error(), "stays closed") {
			t.Errorf("%s %+v: %v, want an error that says so", s, mark, err)
		}
	}
	b := stray()
	for range 2 { // the second time, the place is no longer among the open places
		fails(fleet.StepFreeze, to(1))
		fails(fleet.StepPack, to(1))
		fails(fleet.StepDrop, to(1))
	}
	if m.open() || !slices.Equal(m.list(), []fleet.Marked{{Place: "a", Mark: to(1)}}) {
		t.Errorf("a place that is not closed: open %v, %+v", m.open(), m.list())
	}
	m.taken(fleet.StepThaw, to(1))
	if _, err := s.places.at(t.Context(), workspace); err == nil || !strings.Contains(err.Error(), "being closed") {
		t.Errorf("it is opened again: %v", err)
	}
	fails(fleet.StepPack, claims.Mark{})
	b.Close()
	if _, err := s.places.at(t.Context(), workspace); err != nil {
		t.Errorf("it is not opened again: %v", err)
	}
	b = stray()
	fails(fleet.StepFreeze, to(2))
	b.Close()
	m.taken(fleet.StepFreeze, to(2))
	m.taken(fleet.StepPack, to(2))
	m.taken(fleet.StepDrop, to(2))
}

// The worker of a place refuses a place that is too large, before a front cuts its stream.
func TestAFrontForwardsTheLargestPlace(t *testing.T) {
	if fleet.MaxForwarded <= placefile.MaxStream {
		t.Errorf("a front forwards %d bytes of a place, and a worker packs %d", int64(fleet.MaxForwarded), int64(placefile.MaxStream))
	}
}
