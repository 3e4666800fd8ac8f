package mcp

import "fmt"

// State is the stage of a connection's life. Modern requests need no handshake and are
// served in every state but Shutting and Closed.
type State int

// The states, in the order in which a connection passes them.
const (
	Uninitialized State = iota // nothing is agreed yet
	Initializing               // initialize was accepted; the initialized notification is missing
	Ready                      // the handshake is over
	Shutting                   // no new requests are accepted; running requests end
	Closed                     // the conversation is over
)

// String returns the state's name.
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

// event is a cause for a connection to change its State.
type event int

const (
	evInitialize  event = iota // an initialize request arrived
	evInitialized              // the client's initialized notification arrived
	evReject                   // the initialize request was answered with an error
	evShutdown                 // the client or the operator ended the conversation
	evError                    // the connection broke
	evClose                    // the conversation has been closed
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

// Error reports the event and the state.
func (e *InvalidTransition) Error() string {
	return fmt.Sprintf("%s is not valid while the connection is %s", e.Event, e.From)
}

// next returns the State after an event, or an *InvalidTransition.
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
