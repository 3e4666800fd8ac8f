package mcp

import (
	"context"
	"encoding/json"
	"time"
)

// The states of a task, by their names in the extension.
const (
	TaskWorking   = "working"
	taskInput     = "input_required"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
)

// Task is the work behind a handle: a call that goes on, or a command that a call has
// left running.
type Task struct {
	ID      string // cannot be guessed
	State   string
	Message string // for people and agents; empty for none
	Created time.Time
	Updated time.Time
	Expires time.Time // zero while it runs
	// Answer is the answer that Tasks.Finish got. If a completed or failed task has
	// none, the client gets Result, or Message as the error.
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

// Tasks keeps the tasks of all sessions. Records outlive the program once a method has
// written them without an error. They are called from many goroutines, and must be
// quick.
type Tasks interface {
	// Open makes the call a task.
	Open(ctx context.Context, c LaterCall) (Task, error)
	// Finish records that the call of a task has returned: the state, and an answer, if
	// any. It is not called for a call that the end of its session cancelled.
	Finish(ctx context.Context, c LaterCall, id, state string, answer json.RawMessage) error
	// Get returns a task that a session may see, or an error that wraps ErrNotFound.
	Get(ctx context.Context, s *Session, id string) (Task, error)
	// Cancel ends the command of a task that no call waits for.
	Cancel(ctx context.Context, s *Session, id string) error
	// Release is called when a session is over, after the functions of OnEnd.
	Release(ctx context.Context, s *Session)
}

// KeepTasks makes calls whose clients do not wait tasks. Without it all clients wait. It
// must be called before the first ServeStdio or Handler.
func (s *Server) KeepTasks(t Tasks) { s.deferrals.keeper = t }
