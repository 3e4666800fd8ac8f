// Package todo keeps what an agent has to do: todos with steps, for each tenant
// and workspace, in the state directory. They outlive sessions and the program.
//
// A Book is where they stand. A session has at most one todo that it works on,
// its current one; a new session begins with the one that was made current last.
// Ids are given once and never again, whatever is forgotten meanwhile.
package todo
