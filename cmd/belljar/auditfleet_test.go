package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/fleet"
	"belljar.dev/internal/golden"
)

// TestVerdictsOfLogs checks that each log of a fleet has one verdict, even if its worker
// reports nothing or nonsense: nothing that one worker does hides the others.
func TestVerdictsOfLogs(t *testing.T) {
	report := func(text string) json.RawMessage { return json.RawMessage(text) }
	good := fleet.Audited{Worker: "w1", Report: report(`{"first":1,"last":9,"signed":8,"witnessed":8,"witnesses":["w2"]}`)}
	shown := make(map[string]string)
	for name, tt := range map[string]struct {
		of     fleet.Audited
		status int
		want   string
	}{
		"good":              {good, exitOK, "ok       w1: records 1 to 9, signed up to 8, up to 8 as the log of w2 has it\n1 of 1 logs were read\n"},
		"without a witness": {fleet.Audited{Worker: "w2", Report: report(`{"first":1,"last":9}`)}, exitOK, "w2: records 1 to 9, signed up to 0; no other worker has a checkpoint of it\n2 of 2 logs were read\n"},
		"changed":           {fleet.Audited{Worker: "w2", Report: report(`{"fault":"it was changed","notes":["why"]}`)}, exitFailed, "WRONG    w2: it was changed\n         note: why\n"},
		"cannot be read":    {fleet.Audited{Worker: "w2", Report: report(`{"unread":"no such file"}`)}, exitUnknown, "UNKNOWN  w2: no such file\n"},
		"no report":         {fleet.Audited{Worker: "w2", Report: report(`[]`)}, exitUnknown, "UNKNOWN  w2: its report is not valid\n"},
		"silent":            {fleet.Audited{Worker: "w2", Error: "it does not answer", Unheard: "nor here"}, exitUnknown, "UNKNOWN  w2: it does not answer\nUNKNOWN  w2: checkpoints of others that it has: nor here\n1 of 2 logs were read; not those of w2\n"},
		"disputed":          {fleet.Audited{Worker: "w2", Report: report(`{"first":1,"disputes":["1 of 2"]}`)}, exitUnknown, "UNKNOWN  w2: checkpoints of it that others have: 1 of 2\n"},
		"not all compared":  {fleet.Audited{Worker: "w2", Report: report(`{"first":1}`), Unheard: "too much"}, exitUnknown, "UNKNOWN  w2: checkpoints of others that it has: too much\n"},
		"no reason":         {fleet.Audited{Worker: "w2"}, exitUnknown, "UNKNOWN  w2: its log was not read\n"},
		"an escape":         {fleet.Audited{Worker: "w2", Error: "\x1b[2J"}, exitUnknown, "UNKNOWN  w2: "},
	} {
		t.Run(name, func(t *testing.T) {
			all := []workerLog{judged(good)}
			if name != "good" {
				all = append(all, judged(tt.of))
			}
			var out strings.Builder
			if err := printLogs(&out, all); err != nil {
				t.Fatal(err)
			}
			shown[name] = out.String()
			if got := statusOfLogs(all); got != tt.status {
				t.Errorf("status %d, want %d", got, tt.status)
			}
			if !strings.Contains(out.String(), tt.want) || !strings.HasPrefix(out.String(), "ok       w1: ") || strings.Contains(out.String(), "\x1b") {
				t.Errorf("%q, want %q", out.String(), tt.want)
			}
		})
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		fmt.Fprintf(&text, "-- %s --\n%s", name, shown[name])
	}
	golden.Equal(t, "auditfleet.golden", text.String())
}
