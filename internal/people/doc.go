// Package people is the desk at which questions wait for people. A question is a row in the
// state directory, not a dialogue of a client: it survives a restart, can be answered on
// any way that reaches the desk, and the first answer counts. If nobody answers in time,
// the question ends without an answer.
//
// There are two kinds of questions: package approval asks whether a call may run, and
// package question asks what an agent wants to know. Each kind defines its rows, when a
// question may be answered, and what an answer means. The desk has what both kinds share:
// the bounds, the end of a question's time, the lists, and the callers that wait.
package people
