package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// definitions returns the definitions of the two tools that clients get under a policy.
func definitions(t *testing.T, policy string) string {
	t.Helper()
	var all []string
	for _, info := range newSurfer(t, policy).Tools() {
		if info.Name != policies.ActTool && info.Name != policies.LookTool {
			continue
		}
		text, err := json.Marshal(map[string]any{"name": info.Name, "description": info.Description, "inputSchema": info.InputSchema})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "\n") + "\n"
}

// Every client pays for the definitions in tokens. In texts such as these, a token of the
// tokenizer o200k_base has 4.2 characters or more, so 900 tokens are at least 3,780
// characters (BR2).
func TestBrowserDefinitionsAreShort(t *testing.T) {
	const policy = "version: 1\nsecrets: {pw: {env: PW}}\ndefaults: {decision: deny, profile: web}\nprofiles:\n  web: {browser: {walls: sandboxed, act: true, secrets: [{secret: pw, origin: \"https://shop.example\", field: password}]}}\nrules:\n  - {id: all, match: {tool: \"Browser*\"}, decision: allow}\n"
	text := definitions(t, policy)
	if len(text) > 3780 {
		t.Errorf("the definitions have %d characters", len(text))
	}
	golden.Equal(t, "browserlist.golden", text)
	for rules, want := range map[string]string{
		`{act: [navigate, follow, point]}`: "open back forward reload click hover scroll wait dialog switch close",
		`{act: point}`:                     "hover scroll wait dialog switch close",
		`{act: upload}`:                    "upload",
		`{tool: "Browser"}`:                verbWords(act.Verbs()),
	} {
		var def struct {
			InputSchema struct {
				Properties struct {
					Steps struct {
						Items struct {
							Properties struct{ Do struct{ Enum []string } }
						}
					}
				}
			}
		}
		text := definitions(t, strings.Replace(policy, `{tool: "Browser*"}`, rules, 1))
		if err := json.Unmarshal([]byte(strings.Split(text, "\n")[0]), &def); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(def.InputSchema.Properties.Steps.Items.Properties.Do.Enum, " "); got != want {
			t.Errorf("%s: got the words %q, want %q", rules, got, want)
		}
	}
}

func verbWords(verbs []act.Verb) string {
	var all []string
	for _, v := range verbs {
		all = append(all, string(v))
	}
	return strings.Join(all, " ")
}

// Every verb has its kinds of act, so that no verb is offered or left out by mistake.
func TestEveryVerbHasKinds(t *testing.T) {
	for _, v := range act.Verbs() {
		if len(kindsOf()[v]) == 0 {
			t.Errorf("%s has no kind of act", v)
		}
	}
	if len(kindsOf()) != len(act.Verbs()) {
		t.Errorf("%d verbs have kinds, and there are %d", len(kindsOf()), len(act.Verbs()))
	}
}

// TestBrowserArguments has a valid step for each verb, and the further fields that the verb
// accepts. Any other field is refused before anything runs, and so is a step without a
// field that it needs (BR4).
func TestBrowserArguments(t *testing.T) {
	fields := map[string]string{
		"ref": `"ref":1`, "xy": `"xy":[1,2]`, "to": `"to":[3]`, "url": `"url":"https://a.example/"`, "text": `"text":"Enter"`, "secret": `"secret":"pw"`,
		"clear": `"clear":true`, "path": `"path":"/workspace/a"`, "download": `"download":"d1"`, "accept": `"accept":true`, "button": `"button":"right"`, "ms": `"ms":5`,
	}
	rows := 0
	for _, tt := range []struct{ do, needs, takes string }{
		{"open", "url", ""},
		{"back", "", ""},
		{"forward", "", ""},
		{"reload", "", ""},
		{"click", "ref", "button"},
		{"click", "xy", "button"},
		{"hover", "ref", ""},
		{"hover", "xy", ""},
		{"fill", "ref text", ""},
		{"fill", "ref secret", ""},
		{"press", "text", "ref"},
		{"select", "ref text", ""},
		{"check", "ref", "accept"},
		{"scroll", "ref", ""},
		{"drag", "ref to", ""},
		{"drag", "xy to", ""},
		{"upload", "ref path", ""},
		{"save", "download path", "clear"},
		{"pdf", "path", "clear"},
		{"wait", "text", "ms"},
		{"wait", "ms", "text"},
		{"dialog", "accept", "text"},
		{"eval", "text", ""},
		{"switch", "text", ""},
		{"close", "", "text"},
	} {
		needs, takes := strings.Fields(tt.needs), strings.Fields(tt.takes)
		call := func(names ...string) string {
			parts := []string{fmt.Sprintf(`"do":%q`, tt.do)}
			for _, n := range names {
				parts = append(parts, fields[n])
			}
			return `{"steps":[{` + strings.Join(parts, ",") + `}]}`
		}
		var in browserInput
		check := func(args string) error {
			rows++
			in = browserInput{}
			if err := json.Unmarshal([]byte(args), &in); err != nil {
				t.Fatal(err)
			}
			return in.check()
		}
		if err := check(call(needs...)); err != nil {
			t.Errorf("%s is refused: %v", call(needs...), err)
		}
		for _, n := range takes {
			if err := check(call(append(slices.Clone(needs), n)...)); err != nil {
				t.Errorf("%s with %s is refused: %v", tt.do, n, err)
			}
		}
		for n := range fields {
			if slices.Contains(needs, n) || slices.Contains(takes, n) {
				continue
			}
			// scroll also takes xy or text, in combinations that the table does not have.
			if n == "xy" && tt.do == "scroll" || n == "text" && tt.do == "scroll" {
				continue
			}
			if err := check(call(append(slices.Clone(needs), n)...)); err == nil {
				t.Errorf("%s takes %s besides %s", tt.do, n, tt.needs)
			}
		}
	}
	for _, args := range []string{
		`{"steps":[]}`,
		`{"steps":[` + strings.Repeat(`{"do":"back"},`, act.MaxSteps) + `{"do":"back"}]}`,
		`{"steps":[{"do":"back"}],"then":"all"}`,
		`{"steps":[{"do":"clik","ref":1}]}`,
		`{"steps":[{"do":"back"},{"do":"click"}]}`,
		`{"steps":[{"do":"click","xy":[1]}]}`,
		`{"steps":[{"do":"drag","ref":1,"to":[1,2,3]}]}`,
		`{"steps":[{"do":"save","download":"d1","path":"a.pdf"}]}`,
		`{"steps":[{"do":"upload","ref":1,"path":"~/.ssh/id_rsa"}]}`,
		`{"steps":[{"do":"open","url":"javascript:alert(1)"}]}`,
		`{"steps":[{"do":"open","url":"file:///etc/passwd"}]}`,
		`{"steps":[{"do":"open","url":"//a.example"}]}`,
	} {
		rows++
		var in browserInput
		if err := json.Unmarshal([]byte(args), &in); err != nil {
			t.Fatal(err)
		}
		if err := in.check(); err == nil || !strings.Contains(err.Error(), "nothing was done") {
			t.Errorf("%s: got %v", args, err)
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows", rows)
	}
}
