package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Level is the severity of a finding.
type Level string

// The levels of SARIF.
const (
	Note    Level = "note"
	Warning Level = "warning"
	Error   Level = "error"
)

// Tool is the program that reports the findings.
type Tool struct {
	Name    string
	Version string
	URI     string // address of a page about the program; may be empty
}

// Rule is a kind of finding.
type Rule struct {
	ID          string // stable, for example "toolkit/complexity"
	Name        string // name for people
	Description string // one sentence
	Help        string // what to do about it
	Level       Level  // level of most of its findings
}

// Finding is one place in the source, or one fact about the project.
type Finding struct {
	Rule       string // ID of a rule
	Level      Level  // empty means the level of the rule
	Path       string // relative to the root, with slashes; empty for the whole project
	Line       int    // line number, from 1; zero if the finding has no line
	EndLine    int    // zero means Line
	Message    string
	Properties map[string]any // as JSON, in addition to the message; may be nil
}

// maxFindings is the largest number of results that GitHub accepts in a run
// (docs.github.com, "SARIF support for code scanning"). Further findings are left out, and
// a notification in the file states how many.
const maxFindings = 25_000

// The parts of SARIF that are written.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool                `json:"tool"`
		Invocations []sarifInvocation        `json:"invocations"`
		Bases       map[string]sarifArtifact `json:"originalUriBaseIds"`
		Results     []sarifResult            `json:"results"`
		ColumnKind  string                   `json:"columnKind"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		URI     string      `json:"informationUri,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string      `json:"id"`
		Name    string      `json:"name,omitempty"`
		Short   sarifText   `json:"shortDescription"`
		Full    sarifText   `json:"fullDescription"`
		Help    sarifText   `json:"help"`
		Default sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level Level `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful bool          `json:"executionSuccessful"`
		Notes      []sarifNotice `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotice struct {
		Level   Level     `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifArtifact struct {
		URI         string     `json:"uri,omitempty"`
		Base        string     `json:"uriBaseId,omitempty"`
		Description *sarifText `json:"description,omitempty"`
	}
	sarifResult struct {
		Rule        string            `json:"ruleId"`
		Index       int               `json:"ruleIndex"`
		Level       Level             `json:"level"`
		Message     sarifText         `json:"message"`
		Locations   []sarifLocation   `json:"locations,omitempty"`
		Fingerprint map[string]string `json:"partialFingerprints"`
		Properties  map[string]any    `json:"properties,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPlace `json:"physicalLocation"`
	}
	sarifPlace struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifRegion struct {
		Start int `json:"startLine"`
		End   int `json:"endLine,omitempty"`
	}
)

// root is the uriBaseId of all paths. The file does not say where this directory is: each
// reader has its own copy of the project.
const root = "%SRCROOT%"

// SARIF returns findings as a SARIF 2.1.0 file. gaps state what was not measured; each
// becomes a notification of the run. SARIF returns an error if the ID of a rule is empty or
// occurs twice, if the rule of a finding is unknown, if a path leads out of the root, or if
// properties cannot be written as JSON.
func SARIF(t Tool, rules []Rule, findings []Finding, gaps []string) ([]byte, error) {
	driver := sarifDriver{Name: line(t.Name), Version: line(t.Version), URI: t.URI, Rules: []sarifRule{}}
	index := make(map[string]int, len(rules))
	for i, r := range rules {
		if _, twice := index[r.ID]; twice || r.ID == "" {
			return nil, fmt.Errorf("write SARIF: the ID %q of a rule occurs twice or is empty", r.ID)
		}
		index[r.ID] = i
		driver.Rules = append(driver.Rules, sarifRule{
			ID: r.ID, Name: line(r.Name), Short: sarifText{line(r.Description)}, Full: sarifText{line(r.Description)},
			Help: sarifText{visible(r.Help)}, Default: sarifConfig{r.Level},
		})
	}
	run := sarifRun{
		Tool:        sarifTool{driver},
		Invocations: []sarifInvocation{{Successful: true}},
		Bases:       map[string]sarifArtifact{root: {Description: &sarifText{"The root of the project."}}},
		Results:     []sarifResult{}, ColumnKind: "utf16CodeUnits",
	}
	seen := make(map[string]int)
	for _, f := range findings[:min(len(findings), maxFindings)] {
		at, known := index[f.Rule]
		if !known {
			return nil, fmt.Errorf("write SARIF: a finding has the rule %q, which does not exist", f.Rule)
		}
		r, err := f.sarif(rules[at].Level, seen)
		if err != nil {
			return nil, fmt.Errorf("write SARIF: %w", err)
		}
		r.Index = at
		run.Results = append(run.Results, r)
	}
	if more := len(findings) - maxFindings; more > 0 {
		gaps = append(slices.Clip(gaps), fmt.Sprintf("%d more findings are left out: a run has at most %d", more, maxFindings))
	}
	for _, g := range gaps {
		run.Invocations[0].Notes = append(run.Invocations[0].Notes, sarifNotice{Note, sarifText{message(g)}})
	}
	out, err := json.Marshal(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
	if err != nil {
		return nil, fmt.Errorf("write SARIF: %w", err)
	}
	return append(out, '\n'), nil
}

// sarif returns a finding as a result. seen counts the findings with each fingerprint.
func (f Finding) sarif(level Level, seen map[string]int) (sarifResult, error) {
	if f.Level != "" {
		level = f.Level
	}
	r := sarifResult{Rule: f.Rule, Level: level, Message: sarifText{message(f.Message)}, Properties: f.Properties}
	print := f.fingerprint()
	seen[print]++
	// The name is the one that GitHub knows, and the form is that of CodeQL: findings with
	// the same fingerprint are numbered.
	r.Fingerprint = map[string]string{"primaryLocationLineHash": fmt.Sprintf("%s:%d", print, seen[print])}
	if f.Path == "" {
		return r, nil
	}
	uri, err := uriOf(f.Path)
	if err != nil {
		return r, err
	}
	place := sarifPlace{Artifact: sarifArtifact{URI: uri, Base: root}}
	if f.Line > 0 {
		place.Region = &sarifRegion{Start: f.Line}
		if f.EndLine > f.Line {
			place.Region.End = f.EndLine
		}
	}
	r.Locations = []sarifLocation{{place}}
	return r, nil
}

// numbers matches the parts of a message that change while the finding stays the same.
var numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9]+([.][0-9]+)?`) })

// fingerprint returns a hash that stays the same in the next version of the source: of the
// rule, the path, and the message without its numbers. Line numbers and numbers in messages
// change too often.
func (f Finding) fingerprint() string {
	h := sha256.New()
	for _, s := range []string{f.Rule, f.Path, numbers().ReplaceAllString(f.Message, "0")} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// uriOf returns a path as a relative URI (RFC 3986, 4.2), or an error if the path is
// absolute, contains a NUL, or leads out of the root. It need not be UTF-8.
func uriOf(name string) (string, error) {
	if clean := path.Clean(name); path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(name, "\x00") {
		return "", fmt.Errorf("the path %q is not in the project", clipped(name))
	}
	parts := strings.Split(path.Clean(name), "/")
	for i, p := range parts {
		// A colon in the first part would end a URI scheme.
		parts[i] = strings.ReplaceAll(url.PathEscape(p), ":", "%3A")
	}
	return strings.Join(parts, "/"), nil
}

// message returns a text for a message. It escapes the two constructs that SARIF has in
// messages, because a name in the source could look like one: placeholders, {0}, and links,
// [text](target) (3.11.5, 3.11.6).
func message(s string) string {
	s = strings.ReplaceAll(visible(s), "](", "] (")
	return placeholders().ReplaceAllString(s, "{{$1}}")
}

var placeholders = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([0-9]+)\}`) })
