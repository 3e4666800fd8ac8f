package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"belljar.dev/policies/audit"
)

// soakLedger contains what the clients of the soak know about their calls. Each call has a
// mark in its arguments, by which its audit records are found.
type soakLedger struct {
	name string // name of this run, which is in each mark

	mu    sync.Mutex
	calls []soakCall // guarded by mu
}

// soakCall is a call and the number of its records.
type soakCall struct {
	tenant              uint8
	denied, answered    bool
	decisions, outcomes uint8
	pid                 int // PID of the process that decided
}

func (l *soakLedger) begin(tenant int, denied bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, soakCall{tenant: uint8(tenant), denied: denied})
	return len(l.calls) - 1
}

func (l *soakLedger) mark(call int) string { return fmt.Sprintf("soak-%s.%d", l.name, call) }

func (l *soakLedger) answered(call int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[call].answered = true
}

// count returns how many calls began, and how many were answered.
func (l *soakLedger) count() (began, answered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.answered {
			answered++
		}
	}
	return len(l.calls), answered
}

// soakMark matches a mark of any run.
var soakMark = regexp.MustCompile(`soak-(\w+)\.(\d+)`)

// soakRecord is a record of the audit log in the form that `belljar audit show --json`
// prints.
type soakRecord struct {
	Seq            uint64
	Kind           audit.Kind
	PID            int
	CallID         string `json:"call_id"`
	Tenant         string
	Session, Event string
	Verdict        string
	Args           struct{ Command, Pattern string }
}

// compare reads the audit log, and returns at most twenty faults: calls that were answered
// and have no record, or more records than they should, records without a call, and
// sessions and servers that began and did not end. killed are servers that could not write
// their last records.
func (l *soakLedger) compare(log io.Reader, killed map[int]bool) (wrong []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	complain := func(format string, args ...any) {
		if len(wrong) < 20 {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	running := make(map[string]int) // calls that were decided, by their ids
	sessions, servers := make(map[string]int), make(map[int]int)
	records := bufio.NewScanner(log)
	for records.Buffer(nil, 1<<20); records.Scan(); {
		var r soakRecord
		if err := json.Unmarshal(records.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", records.Text(), err)
		}
		switch r.Kind {
		case audit.KindDecision:
			at, ok := l.find(r.Args.Command + r.Args.Pattern)
			if !ok {
				complain("record %d is of a call that no client made: %s", r.Seq, records.Text())
				continue
			}
			c := &l.calls[at]
			c.decisions++
			c.pid = r.PID
			if r.Tenant != soakTenants[c.tenant] || (r.Verdict == "deny") != c.denied {
				complain("record %d says %s to %s, and call %d was of %s: %s", r.Seq, r.Verdict, r.Tenant, at, soakTenants[c.tenant], records.Text())
			}
			running[r.CallID] = at
		case audit.KindOutcome:
			at, ok := running[r.CallID]
			if !ok {
				complain("record %d has no decision before it: %s", r.Seq, records.Text())
				continue
			}
			l.calls[at].outcomes++
		case audit.KindSession:
			key := strconv.Itoa(r.PID) + " " + r.Session
			switch r.Event {
			case "start":
				sessions[key]++
			case "end":
				sessions[key]--
			}
		case audit.KindServer:
			servers[r.PID] += map[string]int{"start": 1, "stop": -1}[r.Event]
		case audit.KindTorn:
			if len(killed) == 0 {
				complain("record %d: a record was cut, and no server was killed", r.Seq)
			}
		case audit.KindDropped, audit.KindMissing, audit.KindRemoved:
			complain("record %d: %s", r.Seq, records.Text())
		case audit.KindApproval, audit.KindCast, audit.KindCheckpoint, audit.KindEgress, audit.KindFile, audit.KindLogin, audit.KindPolicy, audit.KindUpstream, audit.KindWitness:
		}
	}
	for at, c := range l.calls {
		want := uint8(1)
		if c.denied {
			want = 0
		}
		switch {
		case c.answered && c.decisions != 1, c.decisions > 1:
			complain("call %d of tenant %s, answered: %t: %d decisions", at, soakTenants[c.tenant], c.answered, c.decisions)
		case c.decisions == 1 && c.outcomes != want && !killed[c.pid]:
			complain("call %d of tenant %s, denied: %t: %d outcomes", at, soakTenants[c.tenant], c.denied, c.outcomes)
		}
	}
	for key, open := range sessions {
		var pid int
		fmt.Sscan(key, &pid)
		if open != 0 && !killed[pid] {
			complain("session %s: %d more begins than ends", key, open)
		}
	}
	for pid, open := range servers {
		if open != 0 && !killed[pid] {
			complain("server %d: %d more begins than ends", pid, open)
		}
	}
	return wrong, records.Err()
}

// find returns the call with the mark in a text.
func (l *soakLedger) find(text string) (int, bool) {
	found := soakMark.FindStringSubmatch(text)
	if found == nil || found[1] != l.name {
		return 0, false
	}
	at, err := strconv.Atoi(found[2])
	return at, err == nil && at < len(l.calls)
}

// TestSoakComparesRecords checks that every record that is missing in an audit log, or is
// there twice, is found.
func TestSoakComparesRecords(t *testing.T) {
	const (
		began    = `{"seq":1,"kind":"server","pid":1,"event":"start"}`
		opened   = `{"seq":2,"kind":"session","pid":1,"session":"s","event":"start"}`
		decided  = `{"seq":3,"kind":"decision","pid":1,"call_id":"c-1","tenant":"a","verdict":"allow","args":{"command":"echo soak-x.0"}}`
		outcome  = `{"seq":4,"kind":"outcome","pid":1,"call_id":"c-1"}`
		refusal  = `{"seq":5,"kind":"decision","pid":1,"call_id":"c-2","tenant":"b","verdict":"deny","args":{"pattern":"soak-x.1"}}`
		closed   = `{"seq":6,"kind":"session","pid":1,"session":"s","event":"end"}`
		stopped  = `{"seq":7,"kind":"server","pid":1,"event":"stop"}`
		dropped  = `{"seq":8,"kind":"dropped"}`
		stranger = `{"seq":9,"kind":"decision","pid":1,"call_id":"c-3","tenant":"a","verdict":"allow","args":{"command":"echo soak-y.0"}}`
	)
	all := []string{began, opened, decided, outcome, refusal, closed, stopped}
	wrong := func(killed map[int]bool, log ...string) int {
		l := &soakLedger{name: "x"}
		for tenant, denied := range []bool{false, true, false} {
			l.begin(tenant, denied)
		}
		l.answered(0)
		l.answered(1) // the third call got no answer
		var text bytes.Buffer
		for _, line := range log {
			text.WriteString(line + "\n")
		}
		found, err := l.compare(&text, killed)
		if err != nil {
			return len(found) + 1
		}
		return len(found)
	}
	if n := wrong(nil, all...); n != 0 {
		t.Errorf("a log that has all has %d faults", n)
	}
	for i, line := range all {
		if n := wrong(nil, append(append([]string{}, all[:i]...), all[i+1:]...)...); n == 0 {
			t.Errorf("the lack of %s is overlooked", line)
		}
	}
	for _, more := range []string{decided, outcome, refusal, dropped, stranger, `{`} {
		if n := wrong(nil, append(append([]string{}, all...), more)...); n == 0 {
			t.Errorf("%s is overlooked", more)
		}
	}
	if n := wrong(map[int]bool{1: true}, began, opened, decided, refusal); n != 0 {
		t.Errorf("a server that was killed has %d faults", n)
	}
}
