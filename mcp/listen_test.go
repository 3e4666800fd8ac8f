package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// listening is the notifications of a client about tasks, message by message.
type listening struct {
	t    *testing.T
	next func() answer
}

// acknowledged checks the first message, which contains the tasks of the subscription.
func (l listening) acknowledged(want, subscription string) {
	l.t.Helper()
	a := l.next()
	if a.Method != "notifications/subscriptions/acknowledged" || !strings.Contains(a.raw, want) || !strings.Contains(a.raw, `"io.modelcontextprotocol/subscriptionId":`+subscription) {
		l.t.Fatalf("the acknowledgement: %s, want it to have %s", a.raw, want)
	}
}

// told checks the next notification about a task.
func (l listening) told(id, status, with, subscription string) {
	l.t.Helper()
	a := l.next()
	for _, want := range []string{`"taskId":"` + id + `"`, `"status":"` + status + `"`, with, `"io.modelcontextprotocol/subscriptionId":` + subscription} {
		if a.Method != "notifications/tasks" || !strings.Contains(a.raw, want) {
			l.t.Errorf("the news: %s, want %s", a.raw, want)
		}
	}
	if strings.Contains(a.raw, `"params":{"resultType"`) || strings.Contains(a.raw, `"resultType":""`) || strings.Contains(a.raw, "belljar.dev") {
		l.t.Errorf("the news has what is none: %s", a.raw)
	}
}

// A client that subscribes to a task gets the task's status, and each change of it.
func TestListenToTasks(t *testing.T) {
	ty := newToy(t, impatient)
	c := ty.connect(t)
	made := deferHang(t, c, ty)
	c.send(withTasks(`"mine"`, "subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q,"t-none",17],"promptsListChanged":true}`, made.TaskID)))
	l := listening{t, c.next}
	l.acknowledged(fmt.Sprintf(`"taskIds":[%q]`, made.TaskID), `"mine"`)
	l.told(made.TaskID, "working", "pollIntervalMs", `"mine"`)
	ty.PromptsChanged()
	if a := c.next(); a.Method != "notifications/prompts/list_changed" {
		t.Errorf("beside that: %s", a.raw)
	}
	close(ty.free)
	l.told(made.TaskID, "completed", `"text":"free"`, `"mine"`)

	// The tasks of another session are not reported. A client that does not declare the
	// tasks extension gets an error that states the reason.
	other := ty.connect(t)
	other.send(withTasks("1", "subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, made.TaskID)))
	if a := other.next(); a.Method != "notifications/subscriptions/acknowledged" || strings.Contains(a.raw, made.TaskID) {
		t.Errorf("a task of another session: %s", a.raw)
	}
	if a := other.next(); a.short() != "1: ok" {
		t.Errorf("a subscription to nothing ends: %s", a.raw)
	}
	other.send(modern("2", "subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]},`, made.TaskID)))
	if a := other.next(); !strings.Contains(a.raw, `"code":-32021`) {
		t.Errorf("without the extension: %s", a.raw)
	}
	other.send(withTasks("3", "subscriptions/listen", `"notifications":{"taskIds":["`+strings.Repeat(`x","`, 128)+`x"]}`))
	if a := other.next(); !strings.Contains(a.raw, "got 129, want at most 128") {
		t.Errorf("too many: %s", a.raw)
	}
}

func TestListenToTasksOverHTTP(t *testing.T) {
	s := newSite(t, impatient)
	made := parse(t, s.do("POST", withTasks("1", "tools/call", `"name":"hang","arguments":{}`), modernHeaders("tools/call", "hang")...).last().raw)
	var hang task
	if err := json.Unmarshal(made.Result, &hang); err != nil || hang.TaskID == "" {
		t.Fatalf("a call that takes long: %s", made.raw)
	}
	body := withTasks(`"l"`, "subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, hang.TaskID))
	res, err := http.DefaultClient.Do(s.request(t.Context(), "POST", strings.NewReader(body), modernHeaders("subscriptions/listen", "")...))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	l := listening{t, func() answer {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				return parse(t, data)
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return answer{}
	}}
	l.acknowledged(fmt.Sprintf(`"taskIds":[%q]`, hang.TaskID), `"l"`)
	l.told(hang.TaskID, "working", "pollIntervalMs", `"l"`)
	close(s.free)
	l.told(hang.TaskID, "completed", `"text":"free"`, `"l"`)
}
