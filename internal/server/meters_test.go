package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/front"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// selector matches a metric in an expression, with its matchers if there are any.
var selector = regexp.MustCompile(`\b((?:belljar|go|process)_\w+)(?:\{([^}]*)\})?`)

// grouped matches the labels by which an expression groups.
var grouped = regexp.MustCompile(`\b(?:by|on|without) \(([^)]*)\)`)

// scraped are the labels that Prometheus adds, and the label of buckets.
var scraped = []string{"job", "instance", "le"}

// checkExpression checks that all metrics of an expression exist, and have the labels that
// it uses.
func checkExpression(t *testing.T, m *meters, where, expr string) {
	t.Helper()
	var labels []string
	found := selector.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric in %s", where, expr)
	}
	for _, s := range found {
		name := s[1]
		own, ok := m.registry.Labels(name)
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if !ok {
				own, ok = m.registry.Labels(strings.TrimSuffix(name, suffix))
			}
		}
		if !ok {
			t.Errorf("%s: there is no metric %s", where, name)
			continue
		}
		labels = append(labels, own...)
		for matcher := range strings.SplitSeq(s[2], ",") {
			label, _, _ := strings.Cut(strings.NewReplacer("!", "=", "~", "=").Replace(matcher), "=")
			if label != "" && !slices.Contains(own, label) && !slices.Contains(scraped, label) {
				t.Errorf("%s: %s has no label %s", where, name, label)
			}
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) && !slices.Contains(scraped, label) {
				t.Errorf("%s: no metric of it has the label %s", where, label)
			}
		}
	}
}

func readDoc(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The dashboard and the alerts use only metrics and labels that a server has.
func TestDashboardAndAlerts(t *testing.T) {
	m := newMeters(&Server{})
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(readDoc(t, "monitoring/dashboard.json"), &board); err != nil || len(board.Panels) < 10 {
		t.Fatalf("%d panels, %v", len(board.Panels), err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			checkExpression(t, m, "panel "+p.Title, target.Expr)
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(readDoc(t, "monitoring/alerts.yaml"), &alerts); err != nil || len(alerts.Groups) != 1 || len(alerts.Groups[0].Rules) != 5 {
		t.Fatalf("%+v, %v", alerts, err)
	}
	for _, r := range alerts.Groups[0].Rules {
		checkExpression(t, m, "alert "+r.Alert, r.Expr)
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("alert %s: it says too little", r.Alert)
		}
	}
}

// docs/front.md lists all families of belljar, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	m := newMeters(&Server{})
	_, section, _ := strings.Cut(string(readDoc(t, "front.md")), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`belljar_[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`(belljar_\\w+)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, name[1])
		}
	}
	for _, name := range m.registry.Names() {
		if strings.HasPrefix(name, "belljar_") && !slices.Contains(listed, name) {
			t.Errorf("docs/front.md does not list %s", name)
		}
	}
	for _, name := range listed {
		if _, ok := m.registry.Labels(name); !ok {
			t.Errorf("docs/front.md lists %s, which does not exist", name)
		}
	}
}

// If all labels of a server have all their possible values, the number of series is still
// below the number in docs/front.md.
func TestSeriesOfAFullServer(t *testing.T) {
	e := newEstate(t)
	put(t, e.policy, estatePolicy+e.tenants(""))
	cfg := e.config()
	cfg.Service.Admin = "unix:" + filepath.Join(t.TempDir(), "admin.sock")
	e.serve(cfg)
	m := e.monitor.meters
	server, err := mcp.New(mcp.Config{Gate: e.gate})
	if err != nil {
		t.Fatal(err)
	}
	session, err := server.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	said := func(v policies.Verdict) policies.Decision { return policies.Decision{Verdict: v} }
	for i := range mostTools + 1 {
		for _, c := range []mcp.Traced{
			{Decision: said(policies.Allow), Result: &mcp.Result{}},
			{Decision: said(policies.Allow), Result: &mcp.Result{IsError: true}},
			{Decision: said(policies.Allow), Err: io.EOF},
			{Decision: said(policies.Deny), Result: &mcp.Result{IsError: true}},
			{Decision: said(policies.Ask), Result: &mcp.Result{IsError: true}},
			{Decision: said(policies.Deny), Err: io.EOF},
		} {
			c.Call = mcp.Call{Tool: fmt.Sprint("tool", i), Session: session}
			m.Traced(c)
		}
	}
	for i := range mostTenants + 1 {
		for _, verdict := range []string{"allow", "deny", "ask", "none"} {
			m.byTenant.Add(1, fmt.Sprint("tenant", i), verdict)
		}
	}
	for _, route := range append(e.front.Routes(), "") {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH", "CONNECT", "TRACE", "_other"} {
			m.Answered(front.Answered{HTTP: method, Route: route, Status: 403}) // any client can cause this request
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			m.Answered(front.Answered{HTTP: method, Route: route, Status: 200})
			m.Answered(front.Answered{HTTP: method, Route: route, Status: 503})
		}
	}
	for i := range mostWords {
		word := fmt.Sprint("word", i)
		m.phases.Add(1, word)
		m.logins.Add(1, word)
		m.limits.Add(1, word)
	}
	w := httptest.NewRecorder()
	m.registry.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	// The series of these gauges, of which most are missing here: sessions of each tenant
	// by three transports, their calls, and boxes.
	series := (mostTenants + 1) * (3 + 1 + 1)
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	if series < 2000 || series >= 3000 {
		t.Errorf("%d series, want fewer than 3,000", series)
	}
	t.Logf("%d series", series)
}
