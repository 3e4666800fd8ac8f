// Package names ranks the names of symbols by how much they resemble a query.
//
// A score is a weighted sum of parts from 0 to 1, and each result shows its parts. Words
// compares the words of two names (parseHTTPRequest, parse_http_req) with abbreviations
// written out; the order of the words does not count. Runs compares how often each run of
// three letters occurs in them. Letters is the Jaro-Winkler similarity of the names as a
// whole. Sound, if the caller asks for it, compares the sounds of their words.
//
// The files, each calling those below it:
//
//	rank.go     scores, and the list of the best
//	compare.go  the similarity of two names, part by part
//	word.go     names become words; abbreviations
//	jaro.go     Jaro-Winkler similarity
//	sound.go    how an English word sounds
package names
