package policies_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// messageFiles are the files whose messages people and agents read.
var messageFiles = []string{
	"*.go", "shell/*.go", "cond/*.go", "../internal/strictyaml/*.go", "../cmd/belljar/policy*.go",
	"../internal/people/*.go", "../internal/people/approval/*.go", "../mcp/ask.go", "../mcp/approver.go",
	"../cmd/belljar/appro*.go", "../internal/server/appro*.go", "../cmd/belljar/seen.go",
	"../internal/control/caller.go", "../internal/control/wire.go", "../cmd/belljar/ask*.go",
	"../internal/server/questions.go", "../internal/people/question/*.go", "../cmd/belljar/hook*.go",
	"../internal/server/hookbox.go", "../internal/hooks/*.go", "../cmd/belljar/audit*.go",
	"../internal/server/ledger.go", "../internal/server/recording.go", "audit/verify.go", "audit/readcast.go", "report/*.go",
}

// unseen contains texts of the code that no golden file can show or need show, by their
// beginnings, with the reason.
var unseen = map[string]string{
	"hash the arguments of":                                "no arguments get so far that cannot be written as JSON",
	"the arguments of %s are not kept":                     "the console answers so; TestLargeArguments has it",
	"use approval":                                         "what follows is the database's",
	"read approval":                                        "the same",
	"list approvals":                                       "the same",
	"ask for an approval":                                  "the same",
	"another call used the approval":                       "two calls have to meet eight times; it is in ask_test.go",
	"a call is refused: its approval":                      "for the log",
	"the caller is not known":                              "a mistake of this program",
	"the connection is not a Unix socket":                  "a mistake of this program",
	"read request":                                         "belljar itself writes them",
	": yes. The call runs.":                                "the agent has to be as quick as the answer",
	"\n%s waits ":                                          "on a terminal; approvetalk_test.go reads it there",
	"\n%s no longer waits":                                 "on a terminal; approvewatch_test.go reads it there",
	"%s. Nothing was answered.":                            "the same",
	"May %s run? Type %s: ":                                "the same",
	"a time such as 30m":                                   "the same",
	"%q is not an answer here":                             "the same",
	"wait for the answer":                                  "a terminal that goes away",
	"background tasks of this session run (%d)":            "scripts have one shell at a time; shown_test.go of approval has it",
	"too many questions wait":                              "1,000 of them; it is in desk_test.go",
	"The policy requires a person's approval, and belljar": "ask_test.go of mcp has the whole text",
	"Continue with work that does not need an approval, and tell the person": "the same",
	"uid %d is not the user":                      "holds what differs from run to run; TestCallers looks for it",
	"process %d cannot be inspected":              "the same",
	"process %d is in a box":                      "the same, in TestAnAgentCannotApproveItself",
	"the audit log cannot be signed":              "the server's own log; TestServerWithDamagedAuditKey has it",
	"client without a person":                     "the way of an answer; the sessions of scripts/conformance have it",
	"contains no word":                            "a text of blanks only is refused before",
	"it is not bash":                              "the parser has no other faults by now",
	"put it in quotes, or write it as JSON does":  "YAML takes no other text for a number",
	"%s is not a JSON number":                     "the same",
	"the arguments are a %T":                      "only CEL could hand over something else",
	"arguments cannot be made":                    "a condition cannot make objects, which is told before",
	"server %d keeps the policy":                  "holds what differs from run to run; swap_test.go looks for it",
	"it has not read the file again":              "the same",
	"and %s of other kinds":                       "of a log with more than a thousand kinds of change; policy_replay_test.go makes one",
	"record that the answer of":                   "what follows is the database's",
	"%w: a reply cannot have the state":           "a mistake of this program",
	"read question":                               "the same",
	"hook: standard input":                        "a mebibyte of it, or an error of the system's",
	"it was stopped: ":                            "somebody has to end the hook's box meanwhile",
	"it has more than %d bytes":                   "a hook that grows while it is looked at",
	"... (%d bytes in all)":                       "of long texts; hook_test.go makes some",
	"it has no box or host to run in":             "a mistake of this program",
	"hooks: a time of %s for each":                "HOOKS_TIMEOUT is looked at before",
	"hooks cannot be read":                        "for the log",
	"the environment of its box":                  "of a variable that policies do not take",
	"look at %s":                                  "of a disk that fails",
	"%s belongs to another user":                  "only root could make such a file; TestOnHostIsOurs does",
	"root is not the user of this server":         "caller_test.go makes such a caller",
	"verify audit logs: a log is WRONG":           "the log of a worker that was changed; fleet_audit_test.go has one",
	"a hook was left out":                         "for the log",
	"a hook failed":                               "for the log",
	"a hook refused":                              "for the log",
	"show the question":                           "a terminal that goes away",
	"flush the terminal's input":                  "the same",
	"read the answer":                             "the same",
	"%s: not answered. It still waits.":           "on a terminal; askform_test.go reads it there",
	"records to begin with":                       "what help says of a flag",
	"print new records as they come":              "the same",
	"speed, in `times` the original one":          "the same",
	"longest pause, a `time`":                     "the same",
	"follow audit log":                            "a log that breaks while it is followed",
	"a call is not recorded":                      "for the log",
	"no audit log is kept":                        "for the log",
	"no state directory was found":                "of a user without a home; other commands say so before",
	"name a state directory with --state":         "the same",
	"make room, or lower keep":                    "of a full disk",
	"it cannot be written":                        "of a directory of somebody else's; root could write it",
	"it states that %d records were lost":         "auditdoctor_test.go loses some",
	"calls run without records":                   "of a full disk",
	"server %d cannot write it":                   "auditdoctor_test.go has such a server",
	"open audit log: no state directory is known": "of a user without a home",
	"policy %s: the audit log of this server":     "for the log; auditlog_test.go reads it there",
	"find recording: %q is not a file":            "the log would have to be written anew",
	"play recording":                              "the same, with the digest of what is no recording",
	"removed     1 to %d":                         "of a log with more files than are kept; log_test.go makes one",
	"the record was changed: the line is longer":  "a line of a mebibyte",
	"the record was changed: the first one":       "the log would have to be written anew",
	"the record, or one before it, was changed: a checkpoint in another": "two changes have to fit each other",
	"the log itself states":                             "TestMissingIsStated makes such a log",
	"%s:%d: record %d: %d records could not be written": "of a full disk; disk_test.go has one",
	"%s:%d: record %d: a crash had cut":                 "log_test.go makes such a crash",
	"the end of the audit log was not":                  "of a disk that fails while the server stops",
	"checkpoints were removed":                          "a log of thousands of records",
	"the checkpoint was changed: it cannot":             "its hash is found to be wrong before",
	"the statement about removed":                       "the same",
	"records 1 to %d are gone":                          "tamper.golden has it with another number",
	"the checkpoint that was given signs record":        "of a log with more files than are kept",
	"the last %d records are not signed":                "of a server that runs, or was killed",
	"read %s: the file was removed meanwhile":           "a file that goes while it is read",
	"none of these logs has a checkpoint of":            "of logs of workers; TestFleetAudit has three",
	"witnessed   up to":                                 "of logs of workers; TestFleetAudit has three",
	"unknown-is-real":                                   "a list of options",
	"it contains an expansion that is not bash":         "the parser makes none of bash",
	"it contains arithmetic that is not bash":           "the parser makes none of bash",
	"it contains a construct that is not known here":    "the parser makes none of bash",
}

// Every text of the policy that a person or an agent can get is in a golden file, where it
// can be read in the same form: each text of the code with three words or more must be
// found in one of these files.
func TestEveryMessageIsInAGoldenFile(t *testing.T) {
	shown := goldenTexts(t)
	var files []string
	for _, pattern := range messageFiles {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	used := make(map[string]bool)
	count := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "bundled_tree.go" { // bundled_tree.go has the texts of default.yaml
			continue
		}
		for _, m := range messages(t, file) {
			count++
			if m.pattern.MatchString(shown) {
				continue
			}
			reason := ""
			for begin, why := range unseen {
				if strings.HasPrefix(m.text, begin) {
					reason, used[begin] = why, true
				}
			}
			if reason == "" {
				t.Errorf("%s: no golden file shows %q", m.place, m.text)
			}
		}
	}
	t.Logf("%d texts looked for in %d bytes of golden files", count, len(shown))
	for begin := range unseen {
		if !used[begin] {
			t.Errorf("unseen: %q is shown by now, or gone", begin)
		}
	}
}

// goldenTexts returns the texts of all golden files.
func goldenTexts(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, pattern := range []string{"testdata/*.golden", "testdata/*/*.golden", "../cmd/belljar/testdata/*.txtar", "../cmd/belljar/testdata/*.golden", "../mcp/tools/testdata/*.golden", "../internal/people/approval/testdata/*.golden", "../internal/people/question/testdata/*.golden", "../internal/hooks/testdata/*.golden", "audit/testdata/*.golden"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
			b.WriteByte('\n')
		}
	}
	for _, s := range schemaTexts(t) {
		b.WriteString(s + "\n")
	}
	return b.String()
}

// message is a text of the code and the place where it stands.
type message struct {
	place   string
	text    string
	pattern *regexp.Regexp // pattern of the text after its verbs are filled in
}

var (
	verb = regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]`)
	// sentence distinguishes messages from lists of names.
	sentence = regexp.MustCompile(`\b(its?|the|is|what)\b`)
	words    = regexp.MustCompile(`[a-z]+ [a-z]+.*[a-z]`)
)

// messages returns the texts of a file with three words or more that are neither the
// message of a panic nor a pattern.
func messages(t *testing.T, file string) []message {
	t.Helper()
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []message
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name := called(n); name == "panic" || name == "MustCompile" || strings.HasPrefix(name, "StringVar") || name == "String" || name == "BoolVar" || name == "StringArrayVar" || name == "IntVar" {
				return false
			}
		case *ast.Field: // fields of a struct, with their tags
			return false
		case *ast.KeyValueExpr: // texts of help, which only a person who asks for help reads
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains([]string{"Short", "Long", "Example"}, key.Name) {
				return false
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if (strings.HasPrefix(file, "shell/") || file == "lint_risk.go") && !sentence.MatchString(text) {
				return true // names of options or programs, of which there are long lists
			}
			if n.Kind != token.STRING || err != nil || !words.MatchString(text) || len(strings.Fields(text)) < 3 {
				return true
			}
			parts := verb.Split(strings.ReplaceAll(text, "%%", "%"), -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			all = append(all, message{fset.Position(n.Pos()).String(), text, regexp.MustCompile(strings.Join(parts, `[^\n]*`))})
		}
		return true
	})
	return slices.Clip(all)
}

// called returns the name of the function that is called.
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
