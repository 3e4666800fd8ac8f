package mcp

import "fmt"

// State is the stage of a connection's life. Modern requests need no handshake and are
// served in every state but Shutting and Closed.
type State int

// The states, in the order in which a connection passes them.
const (
	Uninitialized State = iota // nothing was agreed yet
	Initializing               // initialize was accepted, initialized is awaited
	Ready                      // the handshake is over
	Shutting                   // no new requests; running ones end
	Closed                     // over
)

// String is the state's name.
func (s State) String() string {
	switch s {
	case Uninitialized:
		return "uninitialized"
	case Initializing:
		return "initializing"
	case Ready:
		return "ready"
	case Shutting:
		return "shutting"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("state(%d)", int(s))
}

// event is what moves a connection from one State to another.
type event int

const (
	evInitialize  event = iota // an initialize request came
	evInitialized              // the client's initialized notification came
	evReject                   // the initialize request was answered with an error
	evShutdown                 // the client or the operator ended the conversation
	evError                    // the connection broke
	evClose                    // everything has ended
)

func (e event) String() string {
	return [...]string{"initialize", "initialized", "reject", "shutdown", "error", "close"}[e]
}

// InvalidTransition is an event that a State does not expect, for example a second
// initialize.
type InvalidTransition struct {
	From  State
	Event string
}

// Error says which event came in which state.
func (e *InvalidTransition) Error() string {
	return fmt.Sprintf("%s is not valid while the connection is %s", e.Event, e.From)
}

// next is the State after an event, or an *InvalidTransition.
func (s State) next(e event) (State, error) {
	switch {
	case s == Uninitialized && e == evInitialize:
		return Initializing, nil
	case s == Initializing && e == evInitialized:
		return Ready, nil
	case s == Initializing && e == evReject:
		return Uninitialized, nil
	case s < Shutting && (e == evShutdown || e == evError):
		return Shutting, nil
	case s == Shutting && e == evClose:
		return Closed, nil
	}
	return s, &InvalidTransition{From: s, Event: e.String()}
}
