// Command vmtest runs a compiled test in a small virtual machine with another
// kernel, and a tree of control groups of version 2 only:
//
//	go test -c -o t ./sandbox && vmtest -kernel 6.12 -dir sandbox t -test.v
//
// The guest sees the host's root file system, read-only below a layer of its
// own, so every program of the host is there and nothing that a test does
// reaches the host. The exit status is that of the test; 125 says that it
// never ran, and 0 with a line that begins with "skip" that this host has no
// virtual machines; TEST_REQUIRE=vm, or all, makes that 125.
//
// One start, in order:
//
//	host   finds the kernel, or fetches it (kernel.go)
//	host   packs the guest's first files: this program as /init, the kernel
//	       modules, the order (initrd.go)
//	host   starts virtiofsd and qemu (qemu.go)
//	guest  /init mounts, enters the control groups that the order asks for
//	       and runs the test on the first serial line (guest.go)
//	guest  writes the exit status to the second serial line and resets,
//	       which ends qemu
//
// Without KVM the guest's processor is emulated, and everything takes about
// twenty times as long: give tests a timeout to match.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// status of a run that did not come to the test.
const broken = 125

// order is what the guest is to do; it stands in orderFile of its first files.
type order struct {
	Dir     string   `json:"dir"` // working directory
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	User    int      `json:"user"`    // runs the test; 0 is root
	Groups  bool     `json:"groups"`  // a cgroup that belongs to the user, as systemd's Delegate= makes it
	Tmp     string   `json:"tmp"`     // block device for /tmp
	Nothing bool     `json:"nothing"` // just end: a probe
}

// options are the command line.
type options struct {
	kernel  string
	cache   string
	dir     string
	memory  int // MiB
	timeout time.Duration
	user    bool
	plain   bool
	program string
	args    []string
}

func main() {
	if os.Getpid() == 1 {
		guest() // does not return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // this is a main
	code, err := run(ctx, os.Args[1:])
	stop()
	var lack *lackError
	switch {
	case errors.As(err, &lack) && !required(os.Getenv("TEST_REQUIRE")):
		fmt.Fprintf(os.Stderr, "skip: no virtual machine here: %v\n", lack)
	case err != nil:
		fmt.Fprintf(os.Stderr, "vmtest: %v\n", err)
		code = broken
	}
	os.Exit(code) //nolint:forbidigo // this is a main
}

// required reports whether the value of TEST_REQUIRE asks for virtual machines.
func required(want string) bool {
	return slices.ContainsFunc(strings.Split(want, ","), func(name string) bool {
		name = strings.TrimSpace(name)
		return name == "all" || name == "vm"
	})
}

// lackError says what this host lacks for a virtual machine.
type lackError struct{ what string }

func (e *lackError) Error() string { return e.what }

// run does what the command line says and returns the test's exit status.
func run(ctx context.Context, args []string) (int, error) {
	o, err := parse(args)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the guest did not end within %s", o.timeout))
	defer cancel()
	if err := os.MkdirAll(o.cache, 0o750); err != nil {
		return 0, err
	}
	m := machine{memory: o.memory}
	if err := m.find(); err != nil {
		return 0, err
	}
	k, err := findKernel(ctx, o.cache, o.kernel)
	if err != nil {
		return 0, err
	}
	m.kernel = k
	if err := m.chooseAccel(ctx, o.cache); err != nil {
		return 0, err
	}
	w := order{
		Dir: o.dir, Args: o.args, Groups: !o.plain, Tmp: "/dev/vda",
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "TMPDIR=/tmp", "TEST_REQUIRE=" + os.Getenv("TEST_REQUIRE")},
	}
	if o.user {
		w.User = guestUser
	}
	return m.boot(ctx, w, o.program)
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("vmtest", flag.ContinueOnError)
	flags.StringVar(&o.kernel, "kernel", "6.12", "kernel series, 6.12 or 6.1")
	flags.StringVar(&o.cache, "cache", "bin/vm", "directory for kernels")
	flags.StringVar(&o.dir, "dir", ".", "working directory of the test")
	flags.IntVar(&o.memory, "memory", 2048, "memory of the guest in MiB")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "for the guest to end")
	flags.BoolVar(&o.user, "user", false, "run the test as an ordinary user")
	flags.BoolVar(&o.plain, "plain", false, "with -user: give the user no cgroup")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() == 0 {
		return o, errors.New("name the compiled test to run")
	}
	o.args = flags.Args()[1:]
	o.program = flags.Arg(0)
	for _, path := range []*string{&o.cache, &o.dir, &o.program} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return o, err
		}
		*path = abs
	}
	return o, nil
}
