package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"belljar.dev/internal/testenv"
)

// unnested runs a command as on a host where no namespaces nest in boxes: unnested PROGRAM
// ARG...
func unnested() {
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		runtime.LockOSThread()
		err = testenv.Unnest()
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "unnested:", err)
	os.Exit(1)
}

// webserver serves a directory on this machine for the rest of the script and puts its
// host and port into a variable: webserver NAME DIR.
func webserver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: webserver NAME DIR")
	}
	s := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[1]))))
	ts.Defer(s.Close)
	ts.Setenv(args[0], strings.TrimPrefix(s.URL, "http://"))
}
