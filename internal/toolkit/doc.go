// Package toolkit is the analyses of source code that agents can ask for: what of a
// project is complex, copied, dead, often changed, and what its map looks like.
//
// An analysis reads text that somebody else wrote, so it never runs in the server. The
// server starts this binary in the session's box, by the command `belljar toolkit-run`, which is
// [Serve]. The server's end of the conversation is [Converse]. In it the server names
// what the policy keeps from the agent: the helper tells all paths before it opens a
// file, and opens none of those that the server then names.
//
// A number that was not measured is absent, and not_measured says why.
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
//	answers.go        answers that were given before
//	churn.go          analyze_code_churn
//	provenance.go     files that are like a template
//	findings.go       what an analysis has to say of a line, in reports
//	results.go        what results have in common, and how they are made to fit
//	project.go        the files of a project: listed, left out, read
//	languages.go      how much is in which language, and what is not measured of it
//	git.go            git, started in the box
//	protocol.go       the messages between server and helper
//	inputs.go         the arguments of each analysis
//	args.go           what arguments have in common
//	text.go           the text of a result
//	program.go        which program this is
package toolkit
