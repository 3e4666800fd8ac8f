package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/clone"
	"belljar.dev/internal/toolkit/code/history"
	"belljar.dev/policies"
)

// The formats of results.
const (
	summary  = "summary"
	detailed = "detailed"
	asJSON   = "json"
	asSARIF  = "sarif"
	markdown = "markdown"
	asJUnit  = "junit"
)

// Values of cache_strategy.
const (
	refresh = "force-refresh"
	offline = "offline"
)

// Complexity is the arguments of analyze_complexity.
type Complexity struct {
	Project
	Toolchain     string   `json:"toolchain,omitempty" jsonschema:"rust, deno, python-uv, go or a language (default all)"`
	Format        string   `json:"format,omitempty" jsonschema:"summary (default), detailed, json or sarif"`
	MaxCyclomatic *float64 `json:"max_cyclomatic,omitempty" jsonschema:"more is a violation (default 10)"`
	MaxCognitive  *float64 `json:"max_cognitive,omitempty" jsonschema:"more is a violation (default 15)"`
	TopFiles      *float64 `json:"top_files,omitempty" jsonschema:"files to rank (default 10; 0: every violation)"`
}

// Analysis is the name of the tool.
func (*Complexity) Analysis() string { return "analyze_complexity" }
func (c *Complexity) format() string { return c.Format }

// Check returns an error if the arguments are wrong.
func (c *Complexity) Check() error {
	_, err := c.limits()
	return errors.Join(c.check(), checkToolchain(c.Toolchain), formats{summary, detailed, asJSON, asSARIF}.check(c.Format), err)
}

// thresholds are the highest numbers of a function that is not a violation.
type thresholds struct {
	Cyclomatic int `json:"max_cyclomatic" jsonschema:"highest cyclomatic number without a violation"`
	Cognitive  int `json:"max_cognitive" jsonschema:"highest cognitive number without a violation"`
	top        int
}

func (c *Complexity) limits() (t thresholds, err error) {
	var errs [3]error
	t.Cyclomatic, errs[0] = whole("max_cyclomatic", c.MaxCyclomatic, 10, 0, 1_000_000)
	t.Cognitive, errs[1] = whole("max_cognitive", c.MaxCognitive, 15, 0, 1_000_000)
	t.top, errs[2] = whole("top_files", c.TopFiles, 10, 0, maxListed)
	return t, errors.Join(errs[:]...)
}

// toolchains are the names by which the languages of files are chosen.
var toolchains = []string{"rust", "deno", "python-uv", "go", "python", "typescript", "javascript", "c", "cpp", "java"}

func checkToolchain(name string) error { return oneOf("toolchain", name, toolchains) }

// speaks reports whether a language belongs to a toolchain.
func speaks(toolchain string, l code.Language) bool {
	switch toolchain {
	case "":
		return true
	case "deno", "typescript", "javascript":
		return l == code.TypeScript || l == code.TSX || l == code.JavaScript
	case "python-uv":
		return l == code.Python
	}
	return string(l) == toolchain
}

// Churn is the arguments of analyze_code_churn.
type Churn struct {
	Project
	PeriodDays *float64 `json:"period_days,omitempty" jsonschema:"days to look back (default 30)"`
	Format     string   `json:"format,omitempty" jsonschema:"summary (default), detailed or json"`
}

// Analysis is the name of the tool.
func (*Churn) Analysis() string { return "analyze_code_churn" }
func (c *Churn) format() string { return c.Format }

// Check returns an error if the arguments are wrong.
func (c *Churn) Check() error {
	_, err := days(c.PeriodDays)
	return errors.Join(c.check(), formats{summary, detailed, asJSON}.check(c.Format), err)
}

func days(got *float64) (int, error) { return whole("period_days", got, 30, 1, 36_500) }

// Duplicates is the arguments of analyze_duplicates.
type Duplicates struct {
	Project
	DetectionType string   `json:"detection_type,omitempty" jsonschema:"exact, renamed, gapped, semantic or all (default)"`
	Threshold     *float64 `json:"threshold,omitempty" jsonschema:"similarity from which code counts as a clone, 0 to 1 (default 0.85)"`
	GPU           bool     `json:"gpu,omitempty" jsonschema:"no effect"`
	Perf          bool     `json:"perf,omitempty" jsonschema:"with the time of each stage"`
	Format        string   `json:"format,omitempty" jsonschema:"summary (default), detailed, json or sarif"`
	MinLines      *float64 `json:"min_lines,omitempty" jsonschema:"shortest clone (default 5)"`
	Snippet       string   `json:"snippet,omitempty" jsonschema:"code: does it exist already?"`
}

// Analysis is the name of the tool.
func (*Duplicates) Analysis() string { return "analyze_duplicates" }
func (d *Duplicates) format() string { return d.Format }

// Check returns an error if the arguments are wrong.
func (d *Duplicates) Check() error {
	_, err := d.options()
	var long error
	if len(d.Snippet) > maxSnippet {
		long = fmt.Errorf("snippet: got %d bytes, want at most %d", len(d.Snippet), maxSnippet)
	}
	return errors.Join(d.check(), oneOf("detection_type", d.DetectionType, []string{"exact", "renamed", "gapped", "semantic", "all"}),
		formats{summary, detailed, asJSON, asSARIF}.check(d.Format), err, long)
}

// options returns the arguments as options of package clone.
func (d *Duplicates) options() (o clone.Options, err error) {
	var errs [2]error
	o.Threshold, errs[0] = number("threshold", d.Threshold, 0.85, 0, 1)
	o.Threshold = max(o.Threshold, 0.01)
	o.MinLines, errs[1] = whole("min_lines", d.MinLines, 5, 1, 100_000)
	if d.DetectionType != "" && d.DetectionType != "all" {
		o.Kinds = []clone.Kind{clone.Kind(d.DetectionType)}
	}
	return o, errors.Join(errs[:]...)
}

// Graph is the arguments of analyze_graph_metrics.
type Graph struct {
	Project
	Metrics       []string `json:"metrics,omitempty" jsonschema:"any of centrality, pagerank, clustering, components, all (default)"`
	PagerankSeeds []string `json:"pagerank_seeds,omitempty" jsonschema:"nodes to rank from"`
	GraphML       bool     `json:"graphml,omitempty" jsonschema:"with the graph as GraphML"`
	Format        string   `json:"format,omitempty" jsonschema:"summary (default), detailed or json"`
}

// Analysis is the name of the tool.
func (*Graph) Analysis() string { return "analyze_graph_metrics" }
func (g *Graph) format() string { return g.Format }

// Check returns an error if the arguments are wrong.
func (g *Graph) Check() error {
	var seeds error
	if len(g.PagerankSeeds) > maxPatterns {
		seeds = fmt.Errorf("pagerank_seeds: got %d nodes, want at most %d", len(g.PagerankSeeds), maxPatterns)
	}
	return errors.Join(g.check(), allOf("metrics", g.Metrics, []string{"centrality", "pagerank", "clustering", "components", "all"}),
		formats{summary, detailed, asJSON}.check(g.Format), seeds)
}

// wants reports whether the call wants a metric.
func (g *Graph) wants(metric string) bool {
	return len(g.Metrics) == 0 || slices.Contains(g.Metrics, metric) || slices.Contains(g.Metrics, "all")
}

// Names is the arguments of analyze_name_similarity.
type Names struct {
	Project
	Query    string   `json:"query" jsonschema:"name to look for"`
	TopK     *float64 `json:"top_k,omitempty" jsonschema:"names to show (default 10)"`
	Phonetic bool     `json:"phonetic,omitempty" jsonschema:"also names that sound alike"`
	Scope    string   `json:"scope,omitempty" jsonschema:"functions, types, variables or all (default)"`
	Format   string   `json:"format,omitempty" jsonschema:"summary (default), detailed or json"`
}

// Analysis is the name of the tool.
func (*Names) Analysis() string { return "analyze_name_similarity" }
func (n *Names) format() string { return n.Format }

// Check returns an error if the arguments are wrong.
func (n *Names) Check() error {
	var query error
	switch {
	case strings.TrimSpace(n.Query) == "":
		query = errors.New("query: got nothing, want a name such as parseConfig")
	case len(n.Query) > maxQuery || !utf8.ValidString(n.Query):
		query = fmt.Errorf("query: got %d bytes, want at most %d of UTF-8", len(n.Query), maxQuery)
	}
	_, top := n.top()
	return errors.Join(n.check(), query, top, oneOf("scope", n.Scope, []string{"functions", "types", "variables", "all"}),
		formats{summary, detailed, asJSON}.check(n.Format))
}

func (n *Names) top() (int, error) { return whole("top_k", n.TopK, 10, 1, maxListed) }

// Defects is the arguments of analyze_defect_probability.
type Defects struct {
	Project
	MinConfidence *float64 `json:"min_confidence,omitempty" jsonschema:"share of the six vectors that must be measured (default 0.7)"`
	Explain       bool     `json:"explain,omitempty" jsonschema:"with what each vector adds"`
	SARIF         bool     `json:"sarif,omitempty" jsonschema:"same as format sarif"`
	Format        string   `json:"format,omitempty" jsonschema:"summary (default), detailed, json or sarif"`
}

// Analysis is the name of the tool.
func (*Defects) Analysis() string { return "analyze_defect_probability" }

func (d *Defects) format() string {
	if d.SARIF {
		return asSARIF
	}
	return d.Format
}

// Check returns an error if the arguments are wrong.
func (d *Defects) Check() error {
	_, err := d.least()
	return errors.Join(d.check(), formats{summary, detailed, asJSON, asSARIF}.check(d.Format), err)
}

func (d *Defects) least() (float64, error) {
	return number("min_confidence", d.MinConfidence, 0.7, 0, 1)
}

// Comprehensive is the arguments of analyze_comprehensive.
type Comprehensive struct {
	Project
	Format              string   `json:"format,omitempty" jsonschema:"summary (default), detailed, json, markdown or sarif"`
	IncludeDuplicates   *bool    `json:"include_duplicates,omitempty" jsonschema:"default true"`
	IncludeDeadCode     *bool    `json:"include_dead_code,omitempty" jsonschema:"default true"`
	IncludeDefects      *bool    `json:"include_defects,omitempty" jsonschema:"default true"`
	IncludeComplexity   *bool    `json:"include_complexity,omitempty" jsonschema:"default true"`
	IncludeTDG          *bool    `json:"include_tdg,omitempty" jsonschema:"debt that comments admit (default true)"`
	ConfidenceThreshold *float64 `json:"confidence_threshold,omitempty" jsonschema:"of findings, 0 to 1 (default 0.5)"`
	MinLines            *float64 `json:"min_lines,omitempty" jsonschema:"shortest clone (default 10)"`
	IncludePatterns     []string `json:"include_patterns,omitempty" jsonschema:"only these files, such as src/**"`
	ExcludePatterns     []string `json:"exclude_patterns,omitempty" jsonschema:"not these files"`
	Perf                bool     `json:"perf,omitempty" jsonschema:"with the time of each stage"`
	ExecutiveSummary    bool     `json:"executive_summary,omitempty" jsonschema:"numbers only, no lists"`
}

// Analysis is the name of the tool.
func (*Comprehensive) Analysis() string { return "analyze_comprehensive" }
func (c *Comprehensive) format() string { return c.Format }

// Check returns an error if the arguments are wrong.
func (c *Comprehensive) Check() error {
	_, _, err := c.bounds()
	return errors.Join(c.check(), formats{summary, detailed, asJSON, markdown, asSARIF}.check(c.Format), err,
		patterns("include_patterns", c.IncludePatterns), patterns("exclude_patterns", c.ExcludePatterns))
}

// bounds returns the least confidence of a finding, and the number of lines of the shortest
// clone.
func (c *Comprehensive) bounds() (confidence float64, lines int, err error) {
	var errs [2]error
	confidence, errs[0] = number("confidence_threshold", c.ConfidenceThreshold, 0.5, 0, 1)
	lines, errs[1] = whole("min_lines", c.MinLines, 10, 1, 100_000)
	return confidence, lines, errors.Join(errs[:]...)
}

// Context is the arguments of analyze_deep_context.
type Context struct {
	Project
	IncludeAnalyses []string `json:"include_analyses,omitempty" jsonschema:"any of ast, complexity, churn, dag, dead-code, satd, defect-probability (default all)"`
	ExcludeAnalyses []string `json:"exclude_analyses,omitempty" jsonschema:"any of the same"`
	PeriodDays      *float64 `json:"period_days,omitempty" jsonschema:"days of churn (default 30)"`
	DAGType         string   `json:"dag_type,omitempty" jsonschema:"call-graph, import-graph (default), inheritance or full-dependency"`
	MaxDepth        *float64 `json:"max_depth,omitempty" jsonschema:"directories to go down (default 64)"`
	IncludePatterns []string `json:"include_patterns,omitempty" jsonschema:"only these files, such as src/**"`
	ExcludePatterns []string `json:"exclude_patterns,omitempty" jsonschema:"not these files"`
	CacheStrategy   string   `json:"cache_strategy,omitempty" jsonschema:"normal (default), force-refresh or offline"`
	Parallel        *float64 `json:"parallel,omitempty" jsonschema:"files to read at once"`
	Format          string   `json:"format,omitempty" jsonschema:"markdown (default), json or sarif"`
	MaxTokens       *float64 `json:"max_tokens,omitempty" jsonschema:"size of the map (default 8000)"`
}

// analyses are the parts of analyze_deep_context.
var analyses = []string{"ast", "complexity", "churn", "dag", "dead-code", "satd", "defect-probability"}

// Analysis is the name of the tool.
func (*Context) Analysis() string { return "analyze_deep_context" }
func (c *Context) format() string { return c.Format }

// Check returns an error if the arguments are wrong.
func (c *Context) Check() error {
	_, numbers := c.numbers()
	return errors.Join(c.check(), allOf("include_analyses", c.IncludeAnalyses, analyses), allOf("exclude_analyses", c.ExcludeAnalyses, analyses),
		numbers, oneOf("dag_type", c.DAGType, []string{"call-graph", "import-graph", "inheritance", "full-dependency"}),
		patterns("include_patterns", c.IncludePatterns), patterns("exclude_patterns", c.ExcludePatterns),
		oneOf("cache_strategy", c.CacheStrategy, []string{"normal", refresh, offline}),
		formats{markdown, asJSON, asSARIF}.check(c.Format))
}

// contextNumbers are the numbers in the arguments.
type contextNumbers struct{ period, depth, workers, tokens int }

func (c *Context) numbers() (n contextNumbers, err error) {
	var errs [4]error
	n.period, errs[0] = days(c.PeriodDays)
	n.depth, errs[1] = whole("max_depth", c.MaxDepth, 64, 1, 1000)
	n.workers, errs[2] = whole("parallel", c.Parallel, 0, 1, 1024)
	n.tokens, errs[3] = whole("max_tokens", c.MaxTokens, 8000, 100, 200_000)
	return n, errors.Join(errs[:]...)
}

// does reports whether the call wants a part.
func (c *Context) does(part string) bool {
	return (len(c.IncludeAnalyses) == 0 || slices.Contains(c.IncludeAnalyses, part)) && !slices.Contains(c.ExcludeAnalyses, part)
}

// Gate is the arguments of quality_gate.
type Gate struct {
	Project
	ComplexityThreshold  *float64 `json:"complexity_threshold,omitempty" jsonschema:"cyclomatic number of a function, at most (default 10)"`
	DuplicationThreshold *float64 `json:"duplication_threshold,omitempty" jsonschema:"percent of lines, at most (default 5)"`
	CoverageThreshold    *float64 `json:"coverage_threshold,omitempty" jsonschema:"percent of lines, at least (default 80)"`
	DefectThreshold      *float64 `json:"defect_threshold,omitempty" jsonschema:"0 to 1, at most (default 0.3)"`
	Format               string   `json:"format,omitempty" jsonschema:"summary (default), detailed, json, sarif or junit"`
	FailOnViolation      bool     `json:"fail_on_violation,omitempty" jsonschema:"a failed gate is an error"`
	Base                 string   `json:"base,omitempty" jsonschema:"git ref: judge only what changed since"`
	CoverageFile         string   `json:"coverage_file,omitempty" jsonschema:"Go coverprofile, lcov or Cobertura, in project_path"`
}

// Facts returns the directory, and the coverage file, which is read in addition to the
// project.
func (g Gate) Facts() policies.Facts {
	f := g.Project.Facts()
	switch {
	case g.CoverageFile == "":
	case path.IsAbs(g.CoverageFile): // Check refuses such a path, after the policy has decided
		f.Paths = append(f.Paths, g.CoverageFile)
	default:
		f.Paths = append(f.Paths, g.dir()+"/"+g.CoverageFile)
	}
	return f
}

// Analysis is the name of the tool.
func (*Gate) Analysis() string { return "quality_gate" }
func (g *Gate) format() string { return g.Format }

// Check returns an error if the arguments are wrong.
func (g *Gate) Check() error {
	_, limits := g.limits()
	var file error
	if g.CoverageFile != "" && (len(g.CoverageFile) > maxPath || strings.HasPrefix(g.CoverageFile, "/") || slices.Contains(strings.Split(g.CoverageFile, "/"), "..")) {
		file = fmt.Errorf("coverage_file: got %s, want a path below project_path", quote(g.CoverageFile, 200))
	}
	var base error
	if g.Base != "" {
		base = history.CheckBase(g.Base)
	}
	return errors.Join(g.check(), limits, base, file,
		formats{summary, detailed, asJSON, asSARIF, asJUnit}.check(g.Format))
}

// gateLimits are the thresholds of the checks.
type gateLimits struct {
	complexity                    int
	duplication, coverage, defect float64
}

func (g *Gate) limits() (l gateLimits, err error) {
	var errs [4]error
	l.complexity, errs[0] = whole("complexity_threshold", g.ComplexityThreshold, 10, 1, 1_000_000)
	l.duplication, errs[1] = number("duplication_threshold", g.DuplicationThreshold, 5, 0, 100)
	l.coverage, errs[2] = number("coverage_threshold", g.CoverageThreshold, 80, 0, 100)
	l.defect, errs[3] = number("defect_threshold", g.DefectThreshold, 0.3, 0, 1)
	return l, errors.Join(errs[:]...)
}

// all returns the empty arguments of each analysis.
func all() []Args {
	return []Args{&Complexity{}, &Churn{}, &Duplicates{}, &Graph{}, &Names{}, &Defects{}, &Comprehensive{}, &Context{}, &Gate{}}
}

// argsOf returns the empty arguments of an analysis, or nil if there is no such analysis.
func argsOf(tool string) Args {
	for _, one := range all() {
		if one.Analysis() == tool {
			return one
		}
	}
	return nil
}

// decode reads the arguments of an analysis.
func decode(tool string, text []byte) (Args, error) {
	args := argsOf(tool)
	if args == nil {
		return nil, fmt.Errorf("%s is not an analysis", quote(tool, 60))
	}
	if err := json.Unmarshal(text, args); err != nil {
		return nil, err
	}
	return args, args.Check()
}
