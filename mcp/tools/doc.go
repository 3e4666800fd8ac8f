// Package tools has the tools that an agent can call. Each tool gives the
// policy the facts of its arguments, and works in the rooms of belljar with
// the grant that the policy returns. The front end (package mcp) decodes,
// gates and answers; a tool is one method from arguments to a result.
//
// Add registers the tools. The shell tools (Bash, BackgroundBash, ReadBgOutput,
// ListBgTasks, KillBgTask) share the boxes of the session, one for each profile,
// opened at the first call that needs it and closed when the session ends.
//
// The files, each calling those below it:
//
//	tools.go                        registers the tools
//	*.go                            the other tools, whose files do not call each other
//	background.go, bash.go          commands, left running or waited for
//	changes.go, hint.go             what a command changed, and why it may have failed
//	later.go                        how a command or a call becomes a task
//	browser.go, browseract.go       the browser that an agent uses: its steps, looks,
//	browserlook.go, browserfile.go  files, seats, and its arguments
//	browserseat.go, browserstep.go
//	readdocs.go, readimage.go       pages and images
//	readdocstext.go
//	planmode.go                     plans
//	toolkit.go                      the names of the tools of the toolkit
//	aside.go                        what is added to the results of all tools
//	prompts.go, files.go            prompts; the files of the workspace
//	output.go, jobs.go              the resources of outputs and tasks
//	operator.go                     tasks, as an operator sees them
//	read.go, running.go             what a task has written, and its state
//	approval.go, state.go
//	scene.go, execs.go              what a person was shown; the programs that ran
//	session.go                      the boxes of a session
//	backends.go                     the rooms in which tools work
//	text.go                         the text of a result
package tools
