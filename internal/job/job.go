package job

import (
	"encoding/json"
	"errors"
	"time"

	"belljar.dev/internal/store"
)

// Bounds of what is kept for one tenant in one workspace. Ended jobs are removed to make
// room, the oldest first.
const (
	MaxEnded   = 64                 // most ended jobs
	MaxAge     = 7 * 24 * time.Hour // time for which a job is kept after its end
	MaxBytes   = 64 << 20           // most bytes of all outputs and answers together
	MaxOutput  = 4 << 20            // most bytes of one output; of a longer one, the end is kept
	MaxAnswer  = 8 << 20            // most bytes of one answer
	maxRunning = 256
	maxCommand = 4 << 10 // most bytes of a command
	maxAbout   = 1000    // most bytes of a description
)

// Status is the state of a job, or how it ended. For the end of a command it is the
// sandbox's status: exited, killed, timed_out or oom.
type Status string

// The statuses that only this package sets.
const (
	Running Status = "running"
	Lost    Status = "lost"     // the server or session that ran the job ended first
	Over    Status = "answered" // a call without a command has returned
)

// Job is a command in the background, or a call that still runs, or both.
type Job struct {
	ID          int64  // number of the job, for its tenant in its workspace, from 1; never used again
	Handle      string // second name of the job, which cannot be guessed
	Owner       store.Owner
	Tool        string // name of the tool that was called
	Command     string // beginning of the command; empty for a call that runs no command
	Description string
	Output      string    // ID of the output; empty for a job without a command
	Started     time.Time // start of the command; for a job without a command, start of the call
	Ended       time.Time // zero while the job runs
	Status      Status
	End         End
	Size        int64 // bytes of the output; zero while the job runs
	Cursor      int64 // offset of the first unread byte of the output
	// Answered is the outcome of the call whose client has the handle, in the words of
	// Book.Answer's caller. It is empty while the call runs, and for a command that no call
	// waits for.
	Answered string
}

// End is how a command ended.
type End struct {
	Code       *int          `json:"code,omitempty"` // exit code; nil if it is not known
	Signal     string        `json:"signal,omitempty"`
	Wall       time.Duration `json:"wall"`
	CPU        time.Duration `json:"cpu"`
	PeakMemory int64         `json:"peak_memory"`
	Reverted   []string      `json:"reverted,omitempty"`
	Blocked    []string      `json:"blocked,omitempty"`
	By         string        `json:"by,omitempty"` // person who ended the command; empty if it was the agent
}

// Answer is the answer of a job's call, in the form that Book.Answer got it.
type Answer = json.RawMessage

// Forgotten counts the removed jobs of a tenant in a workspace.
type Forgotten struct {
	Jobs int64     // number of removed jobs since the first job
	Last time.Time // time of the latest removal
}

// The errors of a wrong request. Returned errors wrap them.
var (
	ErrUnknown = errors.New("there is no such job")
	ErrMany    = errors.New("too many jobs are running")
	ErrLarge   = errors.New("the answer is too large to be kept")
)
