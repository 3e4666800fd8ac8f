// Package report writes what analyses found in the formats that other programs read: SARIF
// 2.1.0 for code hosts, JUnit XML for CI servers, GraphML for tools that draw graphs, and
// Markdown for people.
//
// Its texts come from repositories that are not trusted. Characters that XML does not
// allow, and characters that have an effect on a terminal, are written as visible escapes;
// a text cannot become markup.
//
// The files, each calling those below it:
//
//	sarif.go     findings as SARIF
//	junit.go     checks as JUnit XML
//	graphml.go   a graph as GraphML
//	markdown.go  pieces of Markdown
//	xml.go       elements of XML
//	text.go      texts that can be shown anywhere
package report
