// Package question puts questions of agents to people: texts with options, of
// which a person chooses or to which they write an answer of their own.
//
// Parse reads what an agent asks, in any of the spellings that clients know. A
// Desk keeps questions with their answers in the state directory: whichever way
// reaches a person first, the first answer holds, and a question that waits
// survives the program.
package question
