package tools

import "belljar.dev/mcp"

// The tools of the toolkit.
const (
	generateTemplate = "generate_template"
	listTemplates    = "list_templates"
	validateTemplate = "validate_template"
	scaffoldProject  = "scaffold_project"
	searchTemplates  = "search_templates"

	analyzeComplexity        = "analyze_complexity"
	analyzeCodeChurn         = "analyze_code_churn"
	analyzeDeepContext       = "analyze_deep_context"
	analyzeDuplicates        = "analyze_duplicates"
	analyzeDefectProbability = "analyze_defect_probability"
	analyzeComprehensive     = "analyze_comprehensive"
	analyzeGraphMetrics      = "analyze_graph_metrics"
	analyzeNameSimilarity    = "analyze_name_similarity"
	qualityGate              = "quality_gate"
)

// ToolkitNames returns the names of the tools of the toolkit. A server has them with serve
// --toolkit, or if its policy names one of them.
func ToolkitNames() []string {
	return []string{
		generateTemplate, listTemplates, validateTemplate, scaffoldProject, searchTemplates,
		analyzeComplexity, analyzeCodeChurn, analyzeDeepContext, analyzeDuplicates, analyzeDefectProbability,
		analyzeComprehensive, analyzeGraphMetrics, analyzeNameSimilarity, qualityGate,
	}
}

// addToolkitTool registers a tool of the toolkit, which reads and changes nothing. Its name is
// also a method of the protocol.
func addToolkitTool[In mcp.Gated](s *mcp.Server, t mcp.Tool, h mcp.Handler[In]) {
	t.ReadOnly, t.Idempotent, t.Method = true, true, true
	mcp.AddTool(s, t, h)
}
