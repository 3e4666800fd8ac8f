package mcp

import (
	"context"
	"encoding/json"
	"time"
)

// The states of a task, as the extension names them.
const (
	TaskWorking   = "working"
	taskInput     = "input_required"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
)

// Task is what a client asks for by a handle: a call that goes on, or what one
// has left to run.
type Task struct {
	ID      string // cannot be guessed
	State   string
	Message string // for people and agents; empty for none
	Created time.Time
	Updated time.Time
	Expires time.Time // zero while it runs
	// Answer is what Tasks.Finish was given. Where a task that is completed or
	// failed has none, Result is what the client gets, or Message the error.
	Answer json.RawMessage
	Result *Result
}

// LaterCall is a call whose client does not wait for its answer.
type LaterCall struct {
	Session *Session
	Tool    string
	Started time.Time
	Key     string // is the call's Later as well
}

// Tasks keep the tasks of all sessions; what they have returned without an error
// outlives the program. Their methods are called from many goroutines, and are
// wanted quickly.
type Tasks interface {
	// Open makes the call a task.
	Open(ctx context.Context, c LaterCall) (Task, error)
	// Finish notes that the call of a task has returned, in a state, with an answer
	// of some form or none. A call that its session's end has ended never does.
	Finish(ctx context.Context, c LaterCall, id, state string, answer json.RawMessage) error
	// Get is a task that a session may see. The error wraps ErrNotFound.
	Get(ctx context.Context, s *Session, id string) (Task, error)
	// Cancel ends what a task runs that no call waits for.
	Cancel(ctx context.Context, s *Session, id string) error
	// Release is called when a session is over, after what OnEnd was given.
	Release(ctx context.Context, s *Session)
}

// KeepTasks has calls whose clients do not wait made tasks. Without it all wait.
// It comes before the first ServeStdio or Handler.
func (s *Server) KeepTasks(t Tasks) { s.keeper = t }
