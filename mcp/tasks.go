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

// Task is the work that a client has a handle for: a call that still runs, or a command
// that a call has started in the background.
type Task struct {
	ID      string // cannot be guessed
	State   string
	Message string // text for people and agents; may be empty
	Created time.Time
	Updated time.Time
	Expires time.Time // zero while the task runs
	// Answer is the answer that Tasks.Finish got. If it is empty and the task has completed
	// or failed, the client gets Result, or Message as the error.
	Answer json.RawMessage
	Result *Result
}

// LaterCall is a call whose client does not wait for its answer.
type LaterCall struct {
	Session *Session
	Tool    string
	Started time.Time
	Key     string // equal to the call's Later
}

// Tasks keeps the tasks of all sessions. A record outlives the program once the method that
// writes it has returned without an error. The methods are called from many goroutines, and
// must return quickly.
type Tasks interface {
	// Open makes the call a task.
	Open(ctx context.Context, c LaterCall) (Task, error)
	// Finish records that the call of a task has returned: its state, and its answer if
	// there is one. It is not called for a call that was cancelled by the end of its
	// session.
	Finish(ctx context.Context, c LaterCall, id, state string, answer json.RawMessage) error
	// Get returns a task that the session may see, or an error that wraps ErrNotFound.
	Get(ctx context.Context, s *Session, id string) (Task, error)
	// Cancel ends the command of a task that no call waits for.
	Cancel(ctx context.Context, s *Session, id string) error
	// Release is called when a session is over, after the functions of OnEnd.
	Release(ctx context.Context, s *Session)
}

// KeepTasks makes a task of each call whose client does not wait for the answer. Without it
// all clients wait. It must be called before the first ServeStdio or Handler.
func (s *Server) KeepTasks(t Tasks) { s.deferrals.keeper = t }
