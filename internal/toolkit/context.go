package toolkit

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/outline"
)

// ContextResult is the result of analyze_deep_context.
type ContextResult struct {
	Base
	Metadata        Metadata         `json:"metadata" jsonschema:"time and version of the result"`
	Scorecard       Scorecard        `json:"quality_scorecard" jsonschema:"numbers of the whole project; toolkit.md has the formulas"`
	Tree            FileTree         `json:"file_tree" jsonschema:"source files, and files that define what imports mean"`
	Languages       []LanguagePart   `json:"languages" jsonschema:"languages, the one with the most code first"`
	Map             string           `json:"map,omitempty" jsonschema:"what the project declares, the most used first"`
	MapLeftOut      int              `json:"map_left_out,omitempty" jsonschema:"number of declarations that max_tokens left out"`
	Analyses        Analyses         `json:"analyses" jsonschema:"the parts that were asked for"`
	Provenance      []Provenance     `json:"template_provenance,omitempty" jsonschema:"files that are like one of the toolkit's templates"`
	Hotspots        []Hotspot        `json:"hotspots" jsonschema:"complex files that change often, the highest score first"`
	Recommendations []Recommendation `json:"recommendations" jsonschema:"what to do first"`

	characters int    // largest size of the text, in characters
	quiet      string // why no file changes often; empty if one does
	draw       func(tokens int) (text string, leftOut int)
}

// Metadata states when and by which version the result was made.
type Metadata struct {
	GeneratedAt time.Time `json:"generated_at" jsonschema:"time of the result"`
	ToolVersion string    `json:"tool_version" jsonschema:"version of belljar"`
	Duration    Duration  `json:"analysis_duration" jsonschema:"how long it took"`
}

// Duration is a time in two parts.
type Duration struct {
	Secs  int64 `json:"secs" jsonschema:"whole seconds"`
	Nanos int64 `json:"nanos" jsonschema:"further nanoseconds"`
}

// Scorecard contains numbers about the whole project. docs/toolkit.md contains their
// formulas. A number that was not measured is absent.
type Scorecard struct {
	OverallHealth   *float64 `json:"overall_health,omitempty" jsonschema:"mean of complexity_score and maintainability_index"`
	ComplexityScore *float64 `json:"complexity_score,omitempty" jsonschema:"percent of functions without a violation"`
	Maintainability *float64 `json:"maintainability_index,omitempty" jsonschema:"mean of the functions, 0 to 100"`
	DebtHours       *float64 `json:"technical_debt_hours,omitempty" jsonschema:"hours to bring all functions below the thresholds"`
}

// FileTree is the files of the project.
type FileTree struct {
	Root       TreeNode `json:"root" jsonschema:"directory of project_path"`
	TotalFiles int      `json:"total_files" jsonschema:"number of files, including those that the tree leaves out"`
	TotalSize  int64    `json:"total_size_bytes" jsonschema:"size of these files"`
	More       int      `json:"more,omitempty" jsonschema:"number of files that the tree leaves out"`
}

// TreeNode is a file or a directory.
type TreeNode struct {
	Name     string `json:"name" jsonschema:"name without its directory"`
	Files    int    `json:"files,omitempty" jsonschema:"number of files below it, if it is a directory"`
	Language string `json:"language,omitempty" jsonschema:"language, if it is a file"`
	Children []any  `json:"children,omitempty" jsonschema:"nodes such as this one, if it is a directory"`
}

// Analyses are the parts that the call wants.
type Analyses struct {
	AST         []FileContext   `json:"ast_contexts,omitempty" jsonschema:"what each file declares"`
	ASTMore     int             `json:"ast_contexts_more,omitempty" jsonschema:"number of further files"`
	Complexity  *ComplexityPart `json:"complexity_report,omitempty" jsonschema:"like the result of analyze_complexity"`
	Churn       []ChurnedFile   `json:"churn_analysis,omitempty" jsonschema:"like churn in the result of analyze_code_churn"`
	ChurnMore   int             `json:"churn_analysis_more,omitempty" jsonschema:"number of further files"`
	Debt        *DebtPart       `json:"satd_results,omitempty" jsonschema:"debt that comments admit"`
	DeadCode    *DeadPart       `json:"dead_code,omitempty" jsonschema:"functions that nothing reaches"`
	Defects     *DefectsPart    `json:"defects,omitempty" jsonschema:"like the result of analyze_defect_probability"`
	DAG         *DAG            `json:"dag,omitempty" jsonschema:"graph that dag_type asks for"`
	Foreign     []Crossing      `json:"cross_language_references,omitempty" jsonschema:"where one language calls another"`
	ForeignMore int             `json:"cross_language_references_more,omitempty" jsonschema:"number of further places"`
}

// Crossing is a place where one language calls another, or where it declares what another
// language can call.
type Crossing struct {
	File string `json:"file" jsonschema:"path from project_path"`
	Line int    `json:"line" jsonschema:"line of the place"`
	By   string `json:"by" jsonschema:"cgo, ctypes, wasm, jni, ..."`
	Name string `json:"name,omitempty" jsonschema:"name of the function or the library"`
	Out  bool   `json:"calls" jsonschema:"true: the file calls; false: others can call it"`
	To   string `json:"to,omitempty" jsonschema:"path:line of the function in the project"`
}

// DAG is a graph of the project.
type DAG struct {
	Kind    string `json:"kind" jsonschema:"dag_type of the call"`
	Nodes   int    `json:"nodes" jsonschema:"number of nodes in the graph"`
	Edges   int    `json:"edges" jsonschema:"number of edges in the graph"`
	Mermaid string `json:"mermaid" jsonschema:"diagram of the nodes with the most links"`
}

// FileContext is what a file declares.
type FileContext struct {
	File      string          `json:"file" jsonschema:"path from project_path"`
	Language  string          `json:"language" jsonschema:"language of the file"`
	Lines     int             `json:"code_lines" jsonschema:"lines with code"`
	Functions []FunctionBrief `json:"functions,omitempty" jsonschema:"functions that it declares"`
	Types     []string        `json:"types,omitempty" jsonschema:"types that it declares"`
	More      int             `json:"more,omitempty" jsonschema:"number of further functions and types"`
}

// FunctionBrief is a function in one line.
type FunctionBrief struct {
	Name       string `json:"name" jsonschema:"its name, with the type that it belongs to"`
	Line       int    `json:"line" jsonschema:"first line"`
	Cyclomatic int    `json:"cyclomatic,omitempty" jsonschema:"its complexity"`
	Cognitive  int    `json:"cognitive,omitempty" jsonschema:"its complexity"`
}

// Hotspot is a file that is complex and changes often.
type Hotspot struct {
	Location Location `json:"location" jsonschema:"where to begin"`
	// Score is the churn score of the file, multiplied by its total_score as a share of the
	// highest total_score, from 0 to 1.
	Score  float64 `json:"composite_score" jsonschema:"0 to 1: churn score times total_score, divided by the highest total_score"`
	Effort Effort  `json:"refactoring_effort" jsonschema:"effort to bring its functions below the thresholds"`
}

// Location is a place.
type Location struct {
	File string `json:"file" jsonschema:"path from project_path"`
	Line int    `json:"line" jsonschema:"line of the function furthest above a threshold; 1 if no function is above"`
}

// Effort is the time that it takes to bring the functions of a file below the thresholds:
// five minutes for each violation, and one minute for each point above a threshold
// (SonarSource's rule S3776).
type Effort struct {
	Hours    float64 `json:"estimated_hours" jsonschema:"five minutes for each violation and one minute for each point above the threshold"`
	Priority string  `json:"priority" jsonschema:"high from a score of 0.5, medium from 0.2, else low"`
}

// Recommendation is something to do.
type Recommendation struct {
	Title       string      `json:"title" jsonschema:"what to do"`
	Description string      `json:"description" jsonschema:"why"`
	Priority    string      `json:"priority" jsonschema:"high, medium or low"`
	Effort      *EffortSecs `json:"estimated_effort,omitempty" jsonschema:"absent if it is not known"`
	Impact      string      `json:"impact" jsonschema:"benefit of doing it"`
}

// EffortSecs is a time.
type EffortSecs struct {
	Secs int64 `json:"secs" jsonschema:"seconds"`
}

// mapHeading begins the heading of the map. All text after it belongs to the map.
const mapHeading = "## Map"

// Limits of a context.
const (
	maxTreeFiles  = 2000
	maxContexts   = 300
	maxSymbols    = 40 // symbols of one file
	maxHotspots   = 20
	maxDAG        = 60  // nodes that are drawn
	mapFrame      = 150 // characters of the text around a map
	maxForeign    = 100
	contextListed = 100
)

func (c *Context) run(r *reading) (result, error) {
	began := time.Now()
	n, err := c.numbers()
	if err != nil {
		return nil, err
	}
	s := linked
	s.speaks, s.lacks, s.halstead = known, functionsField, true
	s.include, s.exclude, s.depth, s.workers = c.IncludePatterns, c.ExcludePatterns, n.depth, n.workers
	r.strategy = c.CacheStrategy
	needs := dependencies{templates: true}
	if c.does("churn") || c.does("defect-probability") {
		needs.days = n.period
	}
	if err := r.readOrRecall(c, s, needs); err != nil {
		return nil, err
	}
	res := &ContextResult{Tree: treeOf(r), Hotspots: []Hotspot{}, Recommendations: []Recommendation{}, Languages: languagesOf(r.files)}
	if res.characters = maxText; c.MaxTokens != nil {
		res.characters = outline.CharsPerToken * n.tokens
	}
	c.measure(r, res, n)
	took := time.Since(began)
	res.Metadata = Metadata{time.Now().UTC(), buildinfo.Read().Version, Duration{int64(took / time.Second), int64(took % time.Second)}}
	if res.Provenance, err = r.provenance(); err != nil {
		return nil, err
	}
	r.shared.alike = res.Provenance
	res.Base = r.base()
	return res, nil
}

// measure makes the parts that the call wants.
func (c *Context) measure(r *reading, res *ContextResult, n contextNumbers) {
	all := complexityOf(r.files, thresholds{Cyclomatic: 10, Cognitive: 15, top: maxListed})
	if c.does("complexity") {
		part := all
		part.Violations, part.ViolationsMore = shorten(part.Violations, contextListed)
		part.rank(slices.Clone(part.TopFiles.Rankings[:min(10, len(part.TopFiles.Rankings))]))
		res.Analyses.Complexity = &part
		res.Scorecard = scorecard(r.files, &all)
	}
	var e evidence
	var parts []func(*reading)
	if c.does("ast") {
		parts = append(parts, func(r *reading) {
			res.draw = r.drawer()
			res.Map, res.MapLeftOut = res.draw(n.tokens)
		})
		res.Analyses.AST, res.Analyses.ASTMore = contexts(r.files)
	}
	if c.does("satd") {
		parts = append(parts, func(r *reading) { res.Analyses.Debt = r.debtOf(contextListed) })
	}
	if c.does("dead-code") {
		parts = append(parts, func(r *reading) { res.Analyses.DeadCode = deadPart(r.deadOf(), 0.5, contextListed) })
	}
	if c.does("dag") {
		parts = append(parts, func(r *reading) {
			res.Analyses.DAG = r.dag(graph.Kind(cmp.Or(c.DAGType, string(graph.Imports))))
			res.Analyses.Foreign, res.Analyses.ForeignMore = r.foreign()
		})
	}
	if c.does("churn") || c.does("defect-probability") {
		parts = append(parts, e.past(n.period))
	}
	if c.does("defect-probability") {
		parts = append(parts, e.links, e.copies)
	}
	r.together(parts...)
	if c.does("churn") {
		h := e.history
		for _, f := range h.Files {
			res.Analyses.Churn = append(res.Analyses.Churn, churned(f))
		}
		if h.Commits == 0 && !h.Newest.IsZero() {
			res.quiet = quiet(n.period, h.Newest.UTC())
		}
		res.Hotspots = hotspots(res.Analyses.Churn, &all)
		res.Analyses.Churn, res.Analyses.ChurnMore = shorten(res.Analyses.Churn, contextListed)
	}
	if c.does("defect-probability") {
		res.Analyses.Defects = r.defectsOf(&e, defectOptions{explain: true, most: maxHotspots})
	}
	res.recommend(&all)
}

// dag draws a graph of the project.
func (r *reading) dag(kind graph.Kind) *DAG {
	g := r.graphOf(kind)
	if g == nil {
		return nil
	}
	done := r.stage("diagram")
	defer done()
	drawn, err := outline.Mermaid(r.ctx, g, maxDAG)
	if err != nil {
		r.lacks(over("dag"))
	}
	return &DAG{Kind: string(kind), Nodes: len(g.Nodes), Edges: len(g.Links), Mermaid: drawn.Text}
}

// foreign finds the places where one language calls another.
func (r *reading) foreign() (all []Crossing, more int) {
	found, gaps, err := graph.Foreign(r.ctx, r.files)
	r.lacks(gaps...)
	if err != nil {
		r.lacks(over("cross_language_references"))
	}
	for _, c := range found {
		all = append(all, Crossing{c.Path, c.Line, c.By, c.Name, c.Out, c.To})
	}
	return shorten(all, maxForeign)
}

// drawer returns a function that writes the map of the project: its declarations, the most
// used first. A link that is known by name alone does not count: such links would put every
// method with a common name, such as those of lists, first.
func (r *reading) drawer() func(tokens int) (text string, leftOut int) {
	nothing := func(int) (string, int) { return "", 0 }
	g := r.graphOf(graph.Full)
	if g == nil {
		return nothing
	}
	done := r.stage("map")
	defer done()
	sure := *g
	sure.Links = slices.DeleteFunc(slices.Clone(g.Links), func(l graph.Link) bool { return l.Sure == graph.Possible })
	ranked, err := outline.Rank(r.ctx, r.files, &sure)
	if err != nil {
		r.lacks(over("map"))
		return nothing
	}
	return func(tokens int) (string, int) {
		drawn := ranked.Map(tokens)
		return drawn.Text, drawn.Left
	}
}

// treeOf returns the tree of the files that the policy does not hide from the agent.
func treeOf(r *reading) FileTree {
	t := FileTree{Root: TreeNode{Name: "."}}
	dirs := map[string]*TreeNode{"": &t.Root}
	var dir func(name string) *TreeNode
	dir = func(name string) *TreeNode {
		if n := dirs[name]; n != nil {
			return n
		}
		above, base := "", name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			above, base = name[:i], name[i+1:]
		}
		in, n := dir(above), &TreeNode{Name: base}
		in.Children = append(in.Children, n)
		dirs[name] = n
		return n
	}
	for _, e := range r.tree.Entries {
		if !r.allowed[e.Path] {
			continue
		}
		t.TotalFiles++
		t.TotalSize += e.Size
		if t.TotalFiles > maxTreeFiles {
			t.More++
			continue
		}
		in := path.Dir(e.Path)
		if in == "." {
			in = ""
		}
		parent := dir(in)
		parent.Children = append(parent.Children, &TreeNode{Name: path.Base(e.Path), Language: string(e.Language)})
		for at := in; ; at = strings.TrimSuffix(at[:max(0, strings.LastIndexByte(at, '/'))], "/") {
			dirs[at].Files++
			if at == "" {
				break
			}
		}
	}
	return t
}

// contexts returns the declarations of the files.
func contexts(files []*code.File) (all []FileContext, more int) {
	for _, f := range files {
		if len(f.Funcs)+len(f.Types) == 0 {
			continue
		}
		if len(all) == maxContexts {
			more++
			continue
		}
		c := FileContext{File: f.Path, Language: string(f.Language), Lines: f.Lines.Code}
		for i := range f.Funcs[:min(len(f.Funcs), maxSymbols)] {
			fn := &f.Funcs[i]
			c.Functions = append(c.Functions, FunctionBrief{fn.Label, fn.First, fn.Cyclomatic, fn.Cognitive})
		}
		for _, t := range f.Types[:min(len(f.Types), maxSymbols)] {
			c.Types = append(c.Types, t.Name)
		}
		c.More = len(f.Funcs) + len(f.Types) - len(c.Functions) - len(c.Types)
		all = append(all, c)
	}
	return all, more
}

// scorecard returns the numbers about the whole project.
func scorecard(files []*code.File, all *ComplexityPart) (s Scorecard) {
	if all.Summary.Functions == 0 {
		return s
	}
	bad := map[string]bool{}
	minutes := 0
	for _, v := range all.Violations {
		bad[fmt.Sprint(v.File, ":", v.Line)] = true
		minutes += 5 + v.Value - v.Limit
	}
	sum, n := 0.0, 0
	for _, f := range files {
		if !measured(f.Language) {
			continue
		}
		for i := range f.Funcs {
			sum += maintainability(&f.Funcs[i])
			n++
		}
	}
	score := round(100*(1-float64(len(bad))/float64(n)), 2)
	index := round(sum/float64(n), 2)
	health, hours := round((score+index)/2, 2), round(float64(minutes)/60, 2)
	return Scorecard{&health, &score, &index, &hours}
}

// maintainability returns the maintainability index of a function by Oman and Hagemeister
// (1992), scaled from 0 to 100: (171 - 5.2 ln(Halstead volume) - 0.23 cyclomatic - 16.2
// ln(lines)) / 171.
func maintainability(fn *code.Func) float64 {
	h := fn.Halstead
	words := float64(max(h.DistinctOperators+h.DistinctOperands, 2))
	volume := max(float64(h.Operators+h.Operands)*math.Log2(words), 1)
	lines := float64(max(fn.Last-fn.First+1, 1))
	return max(0, (171-5.2*math.Log(volume)-0.23*float64(fn.Cyclomatic)-16.2*math.Log(lines))*100/171)
}

// hotspots returns the files that are complex and change often.
func hotspots(churn []ChurnedFile, all *ComplexityPart) []Hotspot {
	if len(all.TopFiles.Rankings) == 0 {
		return []Hotspot{}
	}
	highest := float64(max(all.TopFiles.Rankings[0].Score, 1))
	scores, minutes, lines := map[string]float64{}, map[string]int{}, map[string]int{}
	for _, f := range all.TopFiles.Rankings {
		scores[f.File] = float64(f.Score) / highest
	}
	for _, v := range all.Violations {
		minutes[v.File] += 5 + v.Value - v.Limit
		if lines[v.File] == 0 {
			lines[v.File] = v.Line // the violations are sorted, the worst first
		}
	}
	spots := []Hotspot{}
	for _, f := range churn {
		score := round(f.Score*scores[f.File], 4)
		if score == 0 {
			continue
		}
		priority := "low"
		switch {
		case score >= 0.5:
			priority = "high"
		case score >= 0.2:
			priority = "medium"
		}
		spots = append(spots, Hotspot{Location{f.File, max(1, lines[f.File])}, score, Effort{round(float64(minutes[f.File])/60, 2), priority}})
	}
	order.By(spots, func(a, b *Hotspot) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Location.File, b.Location.File))
	})
	return spots[:min(len(spots), maxHotspots)]
}

// recommend adds what to do first.
func (r *ContextResult) recommend(all *ComplexityPart) {
	add := func(title, description, priority string, minutes int, impact string) {
		one := Recommendation{Title: title, Description: description, Priority: priority, Impact: impact}
		if minutes > 0 {
			one.Effort = &EffortSecs{int64(minutes) * 60}
		}
		r.Recommendations = append(r.Recommendations, one)
	}
	for _, h := range r.Hotspots[:min(len(r.Hotspots), 3)] {
		if h.Effort.Hours > 0 && !code.IsTest(h.Location.File) {
			add("Simplify "+shown(h.Location.File), fmt.Sprintf("It is complex and changes often (score %.2f).", h.Score), h.Effort.Priority, int(h.Effort.Hours*60), "fewer faults in future changes")
		}
	}
	if r.Analyses.Complexity != nil {
		n := 0
		for _, v := range all.Violations {
			if code.IsTest(v.File) {
				continue
			}
			if n++; n > 3 {
				break
			}
			add(fmt.Sprintf("Split %s in %s", shown(v.Function), shown(v.File)), fmt.Sprintf("Its %s complexity is %d, more than %d.", v.Rule, v.Value, v.Limit), "medium", 5+v.Value-v.Limit, "easier to read and to test")
		}
	}
	if d := r.Analyses.DeadCode; d != nil {
		n := 0
		for _, f := range d.Listed {
			if f.Confidence == string(graph.High) {
				n++
			}
		}
		if n > 0 {
			add("Remove dead code", fmt.Sprintf("Nothing reaches %s.", count(n, "function")), "low", 0, "less to read")
		}
	}
}

func (r *ContextResult) findings() (all []finding) {
	if r.Analyses.Complexity != nil {
		all = append(all, r.Analyses.Complexity.findings()...)
	}
	return slices.Concat(all, r.Analyses.DeadCode.findings(), r.Analyses.Debt.findings())
}

// room returns the largest size of the text in characters, which the call sets.
func (r *ContextResult) room() int { return r.characters }

// document returns the map as Markdown. It contains more of the map than a text has room
// for.
func (r *ContextResult) document(format string) ([]byte, bool) {
	if format != markdown {
		return nil, false
	}
	t := text{most: max(r.characters, maxDetailed)}
	r.tell(&t, true)
	return marked(t.String()), true
}

func (r *ContextResult) tell(t *text, _ bool) {
	t.line("# %s in %s", count(r.Tree.TotalFiles, "source file"), cmp.Or(shown(r.within), "the workspace"))
	t.line("%s", linesOf(r.Languages))
	if s := r.Scorecard; s.ComplexityScore != nil {
		t.line("%g %% of the functions are within the thresholds of complexity", *s.ComplexityScore)
	}
	if r.quiet != "" {
		t.line("%s", r.quiet)
	}
	if len(r.Hotspots) > 0 {
		t.line("\n## Complex and often changed")
		var fold folded
		for _, h := range r.Hotspots[:min(len(r.Hotspots), 8)] {
			t.line("- %s:%d %.2f (%s)", fold.path(h.Location.File), h.Location.Line, h.Score, h.Effort.Priority)
		}
	}
	if len(r.Recommendations) > 0 {
		t.line("\n## First")
		for _, one := range r.Recommendations {
			t.line("- %s. %s", one.Title, one.Description)
		}
	}
	if d := r.Analyses.Debt; d != nil && d.Remarks > 0 {
		t.line("\n## Admitted in comments: %s", count(d.Remarks, "remark"))
		for _, one := range d.Listed[:min(len(d.Listed), 5)] {
			t.line("- %s:%d %s", shown(one.Path), one.Line, clip(shown(admitted(one)), 100))
		}
	}
	if r.Map != "" {
		drawn, left := r.Map, r.MapLeftOut
		// a smaller map is drawn, instead of the beginning of this one
		if room := t.most - t.used - mapFrame; len(drawn) > room {
			drawn, left = r.draw(max(room, 0) / outline.CharsPerToken)
		}
		t.line("\n%s: the most used first, by file and line", mapHeading)
		for line := range strings.Lines(drawn) {
			t.line("%s", strings.TrimSuffix(line, "\n"))
		}
		if left > 0 {
			t.line("max_tokens, or a project_path below, shows more")
		}
	}
}
