// Package todo keeps what an agent has to do: todos with steps, for each tenant and
// workspace, in the state directory. They outlive sessions and the program.
//
// A Book contains them. A session has at most one todo that it works on, its current todo;
// a new session begins with the todo that was made current last. An id is never given
// twice, even after its todo was deleted.
package todo
