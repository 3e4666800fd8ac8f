package job

import (
	"encoding/json"
	"errors"
	"time"

	"belljar.dev/internal/store"
)

// Bounds of what is kept of one tenant in one workspace. Ended jobs make room, the
// oldest first.
const (
	MaxEnded   = 64                 // jobs that have ended
	MaxAge     = 7 * 24 * time.Hour // after the end
	MaxBytes   = 64 << 20           // of outputs and answers together
	MaxOutput  = 4 << 20            // of one output: its end
	MaxAnswer  = 8 << 20            // of one answer
	maxRunning = 256
	maxCommand = 4 << 10 // bytes
	maxAbout   = 1000    // bytes of a description
)

// Status is the state of a job, or how it ended. For the end of a command it is the
// sandbox's status: exited, killed, timed_out or oom.
type Status string

// The statuses that this package gives itself.
const (
	Running Status = "running"
	Lost    Status = "lost"     // what ran it went away first: its server, or its session
	Over    Status = "answered" // a call without a command has returned
)

// Job is a command in the background, or a call that goes on, or both.
type Job struct {
	ID          int64  // of its tenant in its workspace, from 1, and never given again
	Handle      string // names it too, and cannot be guessed
	Owner       store.Owner
	Tool        string // what was called
	Command     string // the beginning of it; empty for a call that runs none
	Description string
	Output      string    // id of the output; empty without a command
	Started     time.Time // of the command, or else of the call
	Ended       time.Time // zero while it runs
	Status      Status
	End         End
	Size        int64 // bytes that it has written; zero while it runs
	Cursor      int64 // offset of the first byte of the output that was not read
	// Answered is what became of the call whose client has the handle, in the words
	// of Book.Answer's caller; empty while the call runs, and for a command that no
	// call waits for.
	Answered string
}

// End is how a command ended.
type End struct {
	Code       *int          `json:"code,omitempty"` // nil where it is not known
	Signal     string        `json:"signal,omitempty"`
	Wall       time.Duration `json:"wall"`
	CPU        time.Duration `json:"cpu"`
	PeakMemory int64         `json:"peak_memory"`
	Reverted   []string      `json:"reverted,omitempty"`
	Blocked    []string      `json:"blocked,omitempty"`
	By         string        `json:"by,omitempty"` // the person who ended it; empty for its agent
}

// Answer is the answer of a job's call, in the form that Book.Answer got.
type Answer = json.RawMessage

// Forgotten counts the jobs of a tenant in a workspace that are no longer kept.
type Forgotten struct {
	Jobs int64     // how many, since the beginning
	Last time.Time // when the last ones were removed
}

// The errors of a request that is wrong. Errors wrap them.
var (
	ErrUnknown = errors.New("there is no such job")
	ErrMany    = errors.New("too many jobs are running")
	ErrLarge   = errors.New("the answer is too large to be kept")
)
