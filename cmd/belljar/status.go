package main

import "fmt"

// Exit statuses, the same for every command; `belljar run` has its own, which
// leave room for those of the command it runs.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not come out well
	exitUsage  = 2 // the command line makes no sense
	// exitUnknown is of a command that found out nothing bad, and could not find out all.
	exitUnknown = 3
	exitRun     = 125
	// exitClosedPipe is what a shell says of a program that SIGPIPE (13) ended.
	exitClosedPipe = 128 + 13
)

const exitHelp = `
Exit status: 0 all is well; 1 it is not, and the last line of standard error
says why; 2 the command line makes no sense.`

// statusError is an error with the exit status it leads to. Without an err
// everything has been said already.
type statusError struct {
	code int
	err  error
	help bool // the help of the command says more
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// usage is a mistake in the command line.
func usage(format string, args ...any) error {
	return &statusError{code: exitUsage, err: fmt.Errorf(format, args...), help: true}
}

// failure is what went wrong while doing what was asked.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{code: exitFailed, err: err}
}
