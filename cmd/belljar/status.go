package main

import "fmt"

// Exit statuses, the same for every command. `belljar run` has its own, which leave room
// for the exit statuses of the command that it runs.
const (
	exitOK     = 0
	exitFailed = 1 // the work failed, or a check found a fault
	exitUsage  = 2 // the command line is not valid
	// exitUnknown means that a command found no fault, but could not check everything.
	exitUnknown = 3
	exitRun     = 125
	// exitClosedPipe is the status with which a shell reports a program that SIGPIPE (13)
	// ended.
	exitClosedPipe = 128 + 13
)

const exitHelp = `
Exit status: 0 all is well; 1 it is not, and the last line of standard error
says why; 2 the command line is not valid.`

// statusError is an error with its exit status. If err is nil, everything was printed
// already.
type statusError struct {
	code int
	err  error
	help bool // whether the help of the command says more
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// usage returns an error about a mistake in the command line.
func usage(format string, args ...any) error {
	return &statusError{code: exitUsage, err: fmt.Errorf(format, args...), help: true}
}

// failure returns an error about the work of a command, which leads to exitFailed.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{code: exitFailed, err: err}
}
