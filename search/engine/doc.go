// Package engine is search engines as data: what is sent to each, and what its
// answers mean. It makes no request; package search sends them, and
// `belljar search doctor` reads recorded answers with it.
//
// An engine is a file of engines/. The file says what is sent, where the results
// are in the answer, what proves that nothing was found, and what shows that the
// engine turned us away. Load compiles the files into a Set; an Exchange leads
// one query through one engine, request by request.
//
// The results of an answer are read first. Only an answer without results is searched for
// proofs: first that the engine blocked us, then that it found nothing. Without
// any proof, the engine has drifted from its file or blocked us without a word. Words
// in results prove nothing, so a page about captchas is a page of results.
//
// The files, each calling those below it:
//
//	exchange.go                     a query becomes requests
//	doctor.go                       examines engines by recorded answers
//	parse.go, why.go                an answer becomes results, or a reason for none
//	page.go, json.go                the results on a page, and in a JSON value
//	body.go, unwrap.go              an answer while it is read, and its addresses
//	charset.go, date.go             characters and dates
//	loader.go, set.go               the engines
//	file.go, request.go, answer.go  an engine's file becomes rules
//	template.go, place.go, path.go  what rules consist of
//	yaml.go                         how files are read
//	text.go, tree.go, scan.go       HTML and XML
//	engine.go, outcome.go           the words
//	query.go, response.go
package engine
