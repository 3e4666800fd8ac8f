// Package toolkit contains the analyses of source code that agents can call: which code of
// a project is complex, copied, dead or often changed, and a map of the project.
//
// An analysis reads text that is not trusted, so it never runs in the server. The server
// starts this binary as a helper in the session's box, by the command `belljar toolkit-run`,
// which is [Serve]. The server's end of the conversation is [Converse]. The helper reports
// all paths to the server before it opens a file. The server answers with the paths that
// the policy hides from the agent, and the helper opens none of these.
//
// A number that was not measured is absent, and not_measured states why.
//
// The files, each calling those below it:
//
//	serve.go          the helper in the box
//	converse.go       the server's end
//	gate.go           quality_gate
//	coverage.go       which lines tests have run
//	context.go        analyze_deep_context
//	comprehensive.go  analyze_comprehensive
//	defects.go        analyze_defect_probability
//	duplicates.go     analyze_duplicates
//	graph.go          analyze_graph_metrics
//	names.go          analyze_name_similarity
//	parts.go          dead code, and debt that comments admit
//	complexity.go     analyze_complexity
//	answers.go        the cache of answers
//	churn.go          analyze_code_churn
//	provenance.go     files that resemble a template
//	findings.go       what an analysis reports about a line
//	results.go        the common parts of results, and how results are shortened
//	project.go        the files of a project: listed, left out, read
//	languages.go      how much code each language has, and what is not measured of it
//	git.go            git, started in the box
//	protocol.go       the messages between server and helper
//	inputs.go         the arguments of each analysis
//	args.go           the common parts of arguments
//	text.go           the text of a result
//	program.go        the identity of this program
package toolkit
