// Package people is the desk at which questions wait for people. A question is a row of
// the state and not a dialogue of a client: it survives a restart, can be answered on any
// way that reaches the desk, and the first answer holds. If nobody answers in time, the
// question ends without an answer.
//
// There are two kinds of questions: approval asks whether a call may run, question asks
// what an agent wants to know. Each kind says what its rows are, when one may be answered,
// and what an answer means. The desk has what they share: the bounds, the end of their
// time, the lists, and the callers that wait.
package people
