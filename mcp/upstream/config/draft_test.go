package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// GW48: Each entry of the corpus is written and read again. The result is the same except
// for the secrets, which the new file does not contain.
func TestDraftsOfTheCorpus(t *testing.T) {
	moved := 0
	for _, name := range files(t) {
		entries, _ := Read(filepath.Base(name), load(t, name))
		var drafts []Draft
		var secrets []Secret
		for _, e := range entries {
			d, some, _ := NewDraft(e)
			drafts, secrets = append(drafts, d), append(secrets, some...)
		}
		if len(drafts) == 0 {
			continue
		}
		text, err := Add(nil, drafts...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, faults := Read("x", text)
		for _, f := range faults {
			if f.Level == Error {
				t.Errorf("%s is written so that it cannot be read: %s\n%s", name, f, text)
			}
		}
		if len(again) != len(entries) {
			t.Errorf("%s: %d entries became %d", name, len(entries), len(again))
			continue
		}
		for _, s := range secrets {
			if s.Value != "" && strings.Contains(string(text), s.Value) {
				t.Errorf("%s: the secret of %s is still there", name, s.Of)
			}
		}
		moved += len(secrets)
		for i := range entries {
			if was, is := essence(entries[i], secrets), essence(again[i], secrets); was != is {
				t.Errorf("%s: was %s\nis  %s", name, was, is)
			}
		}
	}
	if moved == 0 {
		t.Error("no secret was taken out of the corpus, which has some")
	}
}

// essence returns the parts of an entry that a draft keeps, with values in place of
// references to secrets.
func essence(e Entry, secrets []Secret) string {
	m := &mover{entry: e}
	var b strings.Builder
	fmt.Fprintf(&b, "%q %s on=%v prefix=%q deny=%q", e.Name, e.Kind, e.Enabled && (e.Tools.All || len(e.Tools.Allow) > 0), e.Prefix, e.Tools.Deny)
	if len(e.Tools.Allow) > 0 {
		fmt.Fprintf(&b, " allow=%q", e.Tools.Allow)
	}
	for what, text := range e.texts() {
		if !strings.Contains(what, "sandbox") {
			fmt.Fprintf(&b, " %s=%q", what, m.text(*text))
		}
	}
	out := b.String()
	for _, s := range secrets {
		if s.Value != "" {
			quoted := fmt.Sprintf("%q", s.Value)
			out = strings.ReplaceAll(out, "${secret:"+s.Name+"}", quoted[1:len(quoted)-1])
		}
	}
	words := strings.Split(out, " the ") // the variables of a file that is an object may have any order
	slices.Sort(words)
	return strings.Join(words, " the ")
}

// A value that looks like a secret is taken out, and no other value is. If a secret cannot
// be taken out, a note says so.
func TestSecretsAreTakenOut(t *testing.T) {
	entries, faults := Read("x", []byte(`{"servers": {"s": {
		"command": "x", "args": ["--token", "t0", "--api-key=k0", "--verbose", "--auth-key", "${KEY}", "ghp_arg"],
		"env": {"GITHUB_TOKEN": "v1", "PASSWORD": "v2", "MY_KEY": "v3", "KEYBOARD": "qwerty", "PATH": "/bin", "EMPTY_TOKEN": "", "ODD": "sk-v4", "REF_TOKEN": "${X_TOKEN}", "ASKED": "${input:who}", "HIDDEN": "${input:pw}", "D_TOKEN": "${A:-b}"}},
		"r": {"url": "https://a.example/", "headers": {"authorization": "Bearer v5", "X-Api-Key": "v6", "X-Of": "a b"}}},
		"inputs": [{"type": "promptString", "id": "who", "default": "ann"}, {"type": "promptString", "id": "pw", "password": true}]}`))
	if Failed(faults) {
		t.Fatal(faults)
	}
	got := make(map[string]string)
	var drafts []Draft
	var notes []string
	for _, e := range entries {
		d, secrets, some := NewDraft(e)
		drafts, notes = append(drafts, d), append(notes, some...)
		for _, s := range secrets {
			got[s.Name] = s.Value
		}
	}
	want := map[string]string{"s-github_token": "v1", "s-password": "v2", "s-my_key": "v3", "s-odd": "sk-v4", "s-pw": "", "r-authorization": "v5", "r-x-api-key": "v6"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("taken out: %v, want %v", got, want)
	}
	text, err := json.Marshal(drafts)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"Authorization":"Bearer ${secret:r-authorization}"`, `"X-Of":"a b"`, `"KEYBOARD":"qwerty"`, `"EMPTY_TOKEN":""`, `"REF_TOKEN":"${X_TOKEN}"`, `"ASKED":"ann"`, `"HIDDEN":"${secret:s-pw}"`, `"D_TOKEN":"${A:-b}"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("got %s, want %s in it", text, part)
		}
	}
	for _, value := range want {
		if value != "" && strings.Contains(string(text), `"`+value) {
			t.Errorf("%s is still there: %s", value, text)
		}
	}
	if all := strings.Join(notes, "\n"); strings.Count(all, "argument ") != 4 || !strings.Contains(all, "argument 2 ") || !strings.Contains(all, "argument 3 ") || !strings.Contains(all, "argument 6 ") || !strings.Contains(all, "argument 7 ") {
		t.Errorf("the notes are\n%s", all)
	}
}

// A file is written only if nothing in it is lost, and a name with special characters does
// not address another place of the file.
func TestAdd(t *testing.T) {
	for name, of := range map[string]struct{ file, entry, want string }{
		"a new file":   {"", "a", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}\n"},
		"odd names":    {`{"mcpServers":{"a":{"command":"y"}}}`, "a/b~c", `"a/b~c": {"command": "x"}`},
		"a pointer":    {`{"mcpServers":{"a":{"command":"y"}}}`, "a/env", `"a/env": {"command": "x"}`},
		"an end":       {`{"mcpServers":{"a":{"command":"y"}}}`, "-", `"-": {"command": "x"}`},
		"other keys":   {"{\"theme\": 1, // mine\n\"mcpServers\": {},}", "a", "// mine"},
		"VS Code":      {`{"servers":{}, "inputs": []}`, "a", `"inputs":`},
		"the same":     {`{"mcpServers":{"a":{"command":"y"}}}`, "a", `!the file already has an entry "a"`},
		"another form": {`{"a":{"command":"y"}}`, "b", `!the file has no object "mcpServers"`},
		"an array":     {`[]`, "b", `!the file has no object "mcpServers"`},
		"not JSON":     {`[x]`, "b", `!the file is not JSON`},
		"a value":      {`{"mcpServers": 1}`, "b", `!the file has no object "mcpServers"`},
		"no name":      {"", " ", "!a server needs a name"},
		"an escape":    {"", "a\x1b", "!the name contains control characters"},
	} {
		text, err := Add([]byte(of.file), Draft{Name: of.entry, Command: "x"})
		if want, fails := strings.CutPrefix(of.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %s, %v, want %s", name, text, err, want)
			}
			continue
		}
		if err != nil || !strings.Contains(string(text), of.want) {
			t.Errorf("%s: got %s, %v, want %s", name, text, err, of.want)
		}
		if entries, faults := Read("x", text); Failed(faults) || !slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == of.entry }) {
			t.Errorf("%s: %s is read as %v, %v", name, text, entries, faults)
		}
	}
}
