package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"belljar.dev/internal/control"
	"belljar.dev/mcp/tools"
)

// TestJobsThatEndInPart checks that `job end` prints which tasks it has ended, also if others
// could not be ended.
func TestJobsThatEndInPart(t *testing.T) {
	job := func(id int64, session string) control.Job {
		return control.Job{JobInfo: tools.JobInfo{ID: id, Session: session, Tenant: "a"}}
	}
	end := func(w http.ResponseWriter, r *http.Request) {
		var want control.End
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil || want.Session == "s-two" {
			control.Respond(w, http.StatusConflict, "it cannot be ended")
			return
		}
		control.Respond(w, http.StatusOK, []control.Job{job(1, want.Session)})
	}
	state := controlled(t, map[string]any{"GET /jobs": []control.Job{job(1, "s-one"), job(2, "s-two")}, "POST /jobs/end": http.HandlerFunc(end)})
	for range 5 { // the sessions have no order
		code, out, errs := ran("job", "end", "--all", "--state", state)
		if code != exitFailed || !strings.Contains(out, "task 1 of session s-one, tenant a: ended") || !strings.Contains(errs, "it cannot be ended") {
			t.Errorf("status %d, %q, %q", code, out, errs)
		}
	}
	code, out, errs := ran("job", "end", "--all", "--json", "--state", state)
	if code != exitFailed || !strings.Contains(out, `"session": "s-one"`) || !strings.Contains(errs, "it cannot be ended") {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
}
