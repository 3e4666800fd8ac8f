// Package question puts questions of agents to people: texts with options, of
// which a person chooses or to which they write an answer of their own.
//
// Parse reads what an agent asks, in any of the spellings that clients know.
package question
