package audit

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/policies"
)

func newRedactor(level policies.AuditLevel) *redactor {
	return &redactor{level: level, secrets: true, env: true, key: []byte("key")}
}

// No spelling of a secret stays in a text, and texts that are not secrets stay.
func TestTokens(t *testing.T) {
	r := newRedactor(policies.AuditRequest)
	r.add("github", "hunter2-and-more")
	alnum := strings.Repeat("aB3x", 12)
	for _, tt := range []struct{ text, secret, want string }{
		{"export T=ghp_" + alnum[:36], "ghp_" + alnum[:36], "github-token"},
		{"git clone https://x:ghs_" + alnum[:36] + "@github.com/a/b", "ghs_", "github-token"},
		{"github_pat_" + alnum, "github_pat_", "github-token"},
		{"glpat-" + alnum[:20], "glpat-" + alnum[:20], "gitlab-token"},
		{"aws AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "aws-key-id"},
		{"key AIza" + alnum[:35], "AIza" + alnum[:35], "google-key"},
		{"xoxb-123456789012-" + alnum[:24], "xoxb-", "slack-token"},
		{"sk-proj-" + alnum, alnum, "api-key"},
		{"curl -H 'Authorization: Bearer abcdef123456'", "abcdef123456", "bearer"},
		{"Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "basic"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl", "jwt"},
		{"psql postgres://app:s3cr3t@db/x", "s3cr3t", "password"},
		{"PGPASSWORD=letmein psql", "letmein", "secret"},
		{"mysql --password=letmein", "letmein", "secret"},
		{"tool --api-key letmein run", "letmein", "secret"},
		{`{"client_secret": "letmein"}`, "letmein", ""},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nafter", "MIIabc", "private-key"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\nMIIabc", "MIIabc", "private-key"},
		{"it is hunter2-and-more.", "hunter2-and-more", "github"},
		{"in base64 aHVudGVyMi1hbmQtbW9yZQ==", "aHVudGVyMi1hbmQtbW9yZQ", "github"},
	} {
		got := r.text(tt.text)
		if strings.Contains(got, tt.secret) || !strings.Contains(got, "[redacted "+tt.want) {
			t.Errorf("%q:\n got %q", tt.text, got)
		}
		if again := r.text(tt.text); again != got {
			t.Errorf("%q: got %q and then %q", tt.text, got, again)
		}
	}
	for _, text := range []string{
		"git log --oneline", "grep -rn token src", "make test TOKENS=", "echo $PASSWORD", "X=$TOKEN curl https://host/a:b@c",
		"sk-short", "risk-" + alnum, "https://example.com/a?b=c", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
		"max_tokens=4096", "go test -run TestToken ./...", "ls --color", "task-ghp_", "AKIA", "Bearer x",
	} {
		if got := r.text(text); got != text {
			t.Errorf("%q: got %q, want it unchanged", text, got)
		}
	}
}

// Each level keeps its own parts of a call, and nothing more.
func TestLevels(t *testing.T) {
	d := decision(1)
	d.Reason, d.Part = "why", "git status"
	d.Args["env"] = map[string]any{"HOME": "/root/value-of-home"}
	d.Args["api_token"] = "value-of-token"
	d.Args["stdin"] = strings.Repeat("x", maxString+5)
	o := Outcome{CallID: "c-1", Error: "text-of-error", Result: "text-of-result"}
	for _, level := range []policies.AuditLevel{policies.AuditMeta, policies.AuditRequest, policies.AuditFull} {
		// The level of a rule counts, whatever the level of the log is.
		for _, logs := range []policies.AuditLevel{policies.AuditMeta, level, policies.AuditFull} {
			d.Level, o.Level = level, level
			testLevel(t, logs, level, d, o)
		}
		d.Level, o.Level = 0, 0
		testLevel(t, level, level, d, o)
	}
}

// testLevel checks what a log of one level keeps of a call of another level.
func testLevel(t *testing.T, logs, level policies.AuditLevel, d Decision, o Outcome) {
	t.Helper()
	for of, want := range map[policies.AuditLevel]struct{ has, lacks string }{
		policies.AuditMeta:    {`"args_level":"meta" "args_hmac" "verdict":"allow"`, `"args": go.test "facts" "part" value-of- why text-of`},
		policies.AuditRequest: {`"args_level":"request" go.test HOME value-of-home|redacted.env "part":"git.status" 5.bytes.cut text-of-error`, `"args_hmac" value-of- text-of-result`},
		policies.AuditFull:    {`"args_level":"full" text-of-result`, `value-of-`},
	} {
		if of != level {
			continue
		}
		r := newRedactor(logs)
		var text string
		for _, rec := range []Record{d, o} {
			line, err := encode("1", rec.Kind(), r, rec)
			if err != nil {
				t.Fatal(err)
			}
			text += string(line)
			if !json.Valid(append([]byte("{"), line...)) {
				t.Errorf("%v: %s is no JSON", level, line)
			}
		}
		for has := range strings.FieldsSeq(want.has) {
			if !regexp.MustCompile(has).MatchString(text) {
				t.Errorf("%v: lacks %s in\n%s", level, has, text)
			}
		}
		for lacks := range strings.FieldsSeq(want.lacks) {
			if regexp.MustCompile(lacks).MatchString(text) {
				t.Errorf("%v: has %s in\n%s", level, lacks, text)
			}
		}
	}
}

// Arguments of any size and shape make a record that can be written.
func TestLargeArguments(t *testing.T) {
	r := newRedactor(policies.AuditFull)
	deep := any("x")
	for range 200 {
		deep = []any{deep}
	}
	many := make([]any, 100)
	for i := range many {
		many[i] = strings.Repeat("\x01", 4096)
	}
	for name, args := range map[string]map[string]any{
		"deep": {"a": deep}, "many": {"a": many}, "none": nil, "empty": {}, "not UTF-8": {"a": "\xff\xfe"},
	} {
		d := decision(1)
		d.Args, d.Facts.Command = args, strings.Repeat("\x01", 1<<20)
		line, err := encode("1", d.Kind(), r, d)
		if err != nil || len(line) > maxLine {
			t.Errorf("%s: %d bytes, %v", name, len(line), err)
		}
	}
}

// Mail addresses are removed if that is configured, and texts that only look like an
// address stay.
func TestEmails(t *testing.T) {
	r := newRedactor(policies.AuditRequest)
	text := "git log --author=jane.doe+x@mail.example.org; ssh me@host.example.com; go get example.com/m@v1.2.3; npm i a@1.2.3 @scope/b; git@host:x me@localhost <a@b.co>, "
	if got := r.text(text); got != text {
		t.Errorf("not asked for: got %q", got)
	}
	r.emails = true
	got := r.text(text)
	for _, gone := range []string{"jane.doe", "mail.example.org", "me@host.example.com", "a@b.co"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s stands in %q", gone, got)
		}
	}
	for _, stays := range []string{"--author=[redacted email", "example.com/m@v1.2.3", "a@1.2.3 @scope/b", "git@host:x me@localhost <[redacted email"} {
		if !strings.Contains(got, stays) {
			t.Errorf("%s is missing in %q", stays, got)
		}
	}
	// A text that looks like a secret is removed even if the known secrets stay.
	r = newRedactor(policies.AuditRequest)
	r.add("known", "correct-horse")
	r.secrets, r.looks = false, true
	if got := r.text("correct-horse PASSWORD=letmein"); !strings.HasPrefix(got, "correct-horse PASSWORD=[redacted secret") {
		t.Errorf("tokens alone: got %q", got)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("PASSWORD=x Bearer abcdefghi -----BEGIN PRIVATE KEY----- https://a:b@c")
	f.Add("token: token= --token --token-- ://:@ sk-")
	f.Fuzz(func(t *testing.T, s string) {
		r := newRedactor(policies.AuditFull)
		r.emails = true
		r.add("known", "correct-horse")
		got := r.text("correct-horse " + s + " correct-horse")
		if strings.Contains(got, "correct-horse") {
			t.Errorf("%q: got %q", s, got)
		}
	})
}

// An option and the secret behind it are two words of an argv.
func TestWords(t *testing.T) {
	r := newRedactor(policies.AuditRequest)
	got := r.words([]string{"mysql", "--password", "letmein", "-u", "root", "--token", "-x", "--api-key", "$KEY", "PGPASSWORD=letmein"})
	for _, w := range got {
		if strings.Contains(w, "letmein") {
			t.Errorf("the secret stands in %q", got)
		}
	}
	if plain := []string{got[0], got[1], got[3], got[4], got[5], got[6], got[7], got[8]}; strings.Join(plain, " ") != "mysql --password -u root --token -x --api-key $KEY" {
		t.Errorf("what is no secret was taken out: %q", got)
	}
}
