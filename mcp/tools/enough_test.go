package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

// derived lists the members of structured results that the text need not contain, and why.
// The text of a result contains all other members too, since a model reads only the text.
var derived = []struct{ tool, member, why string }{
	{"*", "limits.*", "how a host holds its limits is the operator's to know"},
	{"*", "cpu_ms", "a model does nothing with it"},
	{"*", "peak_memory_bytes", "the same"},
	{"*", "refusal.*", "its text is the result's; each refusal is worded once, in policies"},
	{"*", "output_uri", "where the text shows all; rest and shorten say it otherwise"},
	{"Bash", "stdout", "both streams in their order are the text"},
	{"Bash", "stderr", "the same"},
	{"Bash", "output_bytes", "said where something was cut"},
	{"Bash", "status", "exited goes without saying"},
	{"Bash", "exit_code", "said as exit"},
	{"Bash", "changes[].path_b64", "for names that are no text"},
	{"ListBgTasks", "tasks[].*", "a line has the number, the state, the command and what is unread"},
	{"KillBgTask", "command", "the model named the task"},
	{"TaskManager", "tasks[].*", "what was changed is said, and list shows all"},
	{"TaskManager", "before.*", "the model knew it"},
	{"TaskManager", "open", "list says it"},
	{"TaskManager", "done", "list says it"},
	{"TaskManager", "current_task_id", "list and switch say it, and what ends the current one"},
	{"PlanMode", "goal", "status says it"},
	{"PlanMode", "plan_file", "the model named it, and status says it"},
	{"PlanMode", "started_at", "status says for how long"},
	{"PlanMode", "approval*", "said in words, and the id while it waits"},
	{"PlanMode", "plan", "exit: the model wrote it; status has it"},
	{"AskUserQuestion", "answers[].*", "the model asked them; answers are said"},
	{"AskUserQuestion", "question_id", "said while it waits"},
	{"AskUserQuestion", "outcome", "said in words"},
	{"AskUserQuestion", "by", "said of answers"},
	{"SetCallback", "action", "the model named it"},
	{"SetCallback", "set.message", "the model said it"},
	{"SetCallback", "*.due_ms", "said in minutes and seconds"},
	{"SetCallback", "*[].delay_seconds", "the same"},
	{"ReadDocs", "rendered*", "said where a browser was wanted"},
	{"ReadDocs", "format", "the model chose it"},
	{"ReadImage", "path", "the model named it"},
	{"ReadImage", "shown_bytes", "what the model gets is an image"},
	{"ReadImage", "orientation", "it was undone"},
	{"list_templates", "templates[].*", "a list of four or fewer describes them, and a longer one says how to get that"},
	{"validate_template", "errors[].parameter", "shown once, as the text has it"},
	{"WebSearch", "engines[].*", "the last line names those that did not answer, and why"},
	{"WebSearch", "took_ms", "a model does nothing with it"},
	{"WebSearch", "*retry_after_ms", "said in minutes"},
	{"WebSearch", "age_ms", "the same"},
	{"WebSearch", "status", "where no engine answered, the error names them"},
}

// enough fails the test if a structured result contains a value that its text does not.
func enough(t testing.TB, tool string, r *mcp.Result) {
	t.Helper()
	if r == nil || r.Structured == nil {
		return
	}
	raw, err := json.Marshal(r.Structured)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	said := squeeze(words(r))
	leaves(all, "", func(member, value string) {
		if value == "" || strings.Contains(said, squeeze(value)) {
			return
		}
		for _, d := range derived {
			if (d.tool == "*" || d.tool == tool) && pattern(d.member).MatchString(member) {
				return
			}
		}
		t.Errorf("%s: %s is %.200q, which its text does not say: %.500s", tool, member, value, words(r))
	})
}

// pattern returns a regular expression for members as derived writes them.
func pattern(member string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(member), `\*`, ".*") + "$")
}

// squeeze returns a text without spaces, quotes and backslashes, which a tool may write
// differently.
func squeeze(s string) string {
	return strings.NewReplacer(" ", "", "\n", "", "\t", "", `"`, "", `\`, "").Replace(s)
}

// leaves calls see for each string and number of a JSON value. Booleans are left out: they
// only say how other members are to be read.
func leaves(v any, member string, see func(member, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			leaves(v[name], strings.TrimPrefix(member+"."+name, "."), see)
		}
	case []any:
		for _, one := range v {
			leaves(one, member+"[]", see)
		}
	case string:
		see(member, v)
	case float64:
		if v != 0 {
			see(member, fmt.Sprintf("%.0f", v))
		}
	}
}

// A background task that ends immediately, and one that is killed, report what the network
// refused, and where the output is that did not fit in the text.
func TestTasksTellAllThatTheyKnow(t *testing.T) {
	b := boxes(t, "")
	const command = "getent hosts a.example; seq 100000"
	for tool, r := range map[string]*mcp.Result{
		"BackgroundBash": b.call("BackgroundBash", map[string]any{"command": command, "delay_ms": 10_000}),
		"KillBgTask": func() *mcp.Result {
			b.call("BackgroundBash", map[string]any{"command": command, "delay_ms": 10_000})
			return b.call("KillBgTask", map[string]any{"task_id": 2})
		}(),
	} {
		matches(t, tool, words(r), `\[BLOCKED by the sandbox: [^\n]*a\.example[^\n]*\]\n(.*\n)*\[belljar task_id=\d [^\n]* unread_bytes=\d+ output=output://\w+\]\z`)
	}
}
