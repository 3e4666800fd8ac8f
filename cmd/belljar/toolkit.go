package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"belljar.dev/internal/toolkit"
)

// helperMemory is how much memory the helper may hold before it collects garbage more
// often than a program that starts.
const helperMemory = 192 << 20

// helperOf runs what a server starts in a box to measure source code. Its lines are
// for the server, and must not go through a writer for people.
func helperOf(ctx context.Context, in io.Reader, out, events io.Writer) int {
	if !toolkit.InBox() {
		fmt.Fprintf(events, "belljar: %s runs in a box, where a server starts it; `belljar toolkit` measures\n", toolkit.HelperCommand)
		return exitUsage
	}
	debug.SetMemoryLimit(helperMemory)
	err := toolkit.Serve(ctx, toolkit.Host{In: in, Out: out, Events: events, Workspace: toolkit.Workspace, Git: toolkit.Git})
	if err != nil {
		return exitFailed
	}
	return exitOK
}
