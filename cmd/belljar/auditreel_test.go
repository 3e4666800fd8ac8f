package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// TestAuditReel checks that the page of a reel shows what a web page wrote as text, and
// that a recording that is not a reel is refused with a text (BR41, BR-A13).
func TestAuditReel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditFull)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Reel("c-1")
	if err != nil {
		t.Fatal(err)
	}
	r.Add(audit.Frame{Act: `press on https://shop.example at button "<script>alert(1)</script>"`, Did: "clicked \x1b[2J\u202e<img src=x onerror=alert(1)>", URL: `https://shop.example/"><script>`, JPEG: []byte("jpeg")})
	r.Add(audit.Frame{Act: "submit on https://shop.example", Why: `a dialog waits: confirm "<b>Sure?"`})
	_ = r.Close()
	reel, _ := r.Recorded()
	reel.Cut = "it would be larger than 16 MiB"
	c, err := l.Cast("c-2", audit.Screen{})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	cast, _ := c.Recorded()
	for id, is := range map[string]audit.Recorded{"c-1": reel, "c-2": cast, "c-3": {File: filepath.Join("casts", "c-3.reel"), SHA256: cast.SHA256}} {
		if err := l.Write(t.Context(), audit.Outcome{CallID: id, Tool: "Browser", Cast: &is}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, cast.File))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "casts", "c-3.reel"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	is, err := audit.ReadReel(t.Context(), dir, "c-1")
	if err != nil {
		t.Fatal(err)
	}
	page := string(reelPage("c-1", is))
	for _, bad := range []string{"<script", "<img src=x", "\x1b", "\u202e", "<b>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	page = strings.Replace(page, is.Began.UTC().Format(time.DateTime), "TIME", 1)
	out := regexp.MustCompile(`After \d+\.\d s`).ReplaceAllString(page, "After N s")
	_, _, err = audit.ReadCast(t.Context(), dir, "c-1", nil)
	out += fmt.Sprintf("\n%v\n", err)
	_, err = audit.ReadReel(t.Context(), dir, "c-2")
	out += fmt.Sprintf("%v\n", err)
	_, err = audit.ReadReel(t.Context(), dir, "c-3")
	out += fmt.Sprintf("%v\n", err)
	file := filepath.Join(t.TempDir(), "steps.html")
	for _, args := range [][]string{{"c-1"}, {"c-1", "--to", file}} {
		var said strings.Builder
		c := auditReelCommand()
		c.SetOut(&said)
		c.SetErr(&said)
		c.SetArgs(append(args, "--log", dir))
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.ExecuteContext(t.Context())
		out += fmt.Sprintf("%s%v\n", strings.ReplaceAll(said.String(), file, "FILE"), err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "<!doctype html>") {
		t.Errorf("%v: the file is %.100q", err, text)
	}
	golden.Equal(t, "auditreel.golden", out)
}
