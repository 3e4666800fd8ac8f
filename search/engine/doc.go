// Package engine is search engines as data: what is sent to each, and what its
// answers mean. It makes no request; package search sends them, and
// `belljar search doctor` reads recorded answers with it.
//
// An engine is a file of engines/. The file says what is sent, where the results
// are in the answer, what proves that nothing was found, and what shows that the
// engine turned us away. Load compiles the files into a Set; an Exchange leads
// one query through one engine, request by request.
//
// An answer is parsed first. Only if that finds no result, proof of emptiness is
// looked for, then proof of a block; without either the engine has drifted from
// its file. Words in results prove nothing, so a page about captchas is a page of
// results.
//
//	outcome.go, query.go, response.go        the words
//	engine.go, set.go, loader.go, doctor.go  the engines, and what examines them
//	file.go, request.go, answer.go           an engine's file becomes rules
//	template.go, place.go, path.go           what rules consist of
//	yaml.go                                  how files are read
//	exchange.go                              a query becomes requests
//	parse.go, page.go, json.go, unwrap.go    an answer becomes results
//	tree.go, scan.go, text.go                HTML and XML
//	charset.go, date.go                      characters and dates
package engine
