// Package question puts questions of agents to people: texts with options. A person chooses
// from the options, or writes another answer.
//
// Parse reads what an agent asks, in any of the spellings that clients know.
package question
