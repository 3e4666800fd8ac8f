// Command vmtest runs a compiled test in small virtual machines, one after the
// other, each with another kernel and other control groups:
//
//	go test -c -o t ./sandbox && vmtest -guests "6.1/v1/root 6.12/v2/plain" -dir sandbox t -test.v
//
// A guest is named by its kernel series, its control groups and the user that runs
// the test there:
//
//	6.12       or 6.1
//	v2         one tree of version 2, made by systemd
//	hybrid     limits in trees of version 1, and one of version 2 without controllers
//	v1         trees of version 1 only
//	root       the guest's root, in a cgroup of its own
//	delegated  an ordinary user that owns its cgroup
//	plain      an ordinary user that does not own it
//	systemd    root, in a service of the host's systemd, which is the first process
//	login      an ordinary user that has logged in to a host with systemd
//
// The guest sees the host's root file system, read-only below a layer of its
// own. So the guest has every program of the host, and nothing that a test does
// reaches the host. /tmp is a disk of its own, ext4 with project quotas.
//
// The exit status is that of the first test that failed. It is 125 if a test did
// not start. If this host cannot run virtual machines, vmtest writes a line that
// begins with "skip" and the status is 0, or 125 with TEST_REQUIRE=vm or all.
//
// With -tally, vmtest writes one line per guest with its counts, and the output of
// its failed tests. The whole output is in a file next to the kernels.
//
// One start, in order:
//
//	host   finds the kernel, or downloads it (kernel.go)
//	host   packs the guest's initial files: this program as /init, the kernel
//	       modules, the order (initrd.go)
//	host   starts virtiofsd and qemu (qemu.go)
//	guest  /init mounts, enters the control groups that the order asks for
//	       and runs the test on the first serial line (guest.go, groups.go)
//	guest  writes the exit status to the second serial line and resets,
//	       which ends qemu (with systemd between the two: systemd.go)
//	host   counts the tests in the output (tally.go)
//
// With -cuts, the program is one that writes and reports what is stored. The power
// of its guest is cut, and the program continues in the next guest (power.go).
//
// Without KVM the guest's processor is emulated, and everything takes about
// twenty times as long. A test must multiply its times by the number in the
// environment variable BELLJAR_TEST_PATIENCE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// broken is the exit status of a run in which a test did not start.
const broken = 125

// order describes what the guest must do. The guest reads it from orderFile in its initial
// files.
type order struct {
	Dir       string   `json:"dir"` // working directory
	Args      []string `json:"args"`
	Env       []string `json:"env"`
	User      int      `json:"user"`      // uid that runs the test; 0 is root
	Delegated bool     `json:"delegated"` // the user owns the cgroup, as systemd's Delegate= makes it
	Groups    string   `json:"groups"`    // v1, hybrid or v2
	Tmp       string   `json:"tmp"`       // block device for /tmp
	Systemd   bool     `json:"systemd"`   // systemd is the first process
	Program   string   `json:"program"`   // path of the test; set by the guest
	Nothing   bool     `json:"nothing"`   // only end: the guest is a probe

	// The following fields are for a guest whose power is cut. Such a guest has only its
	// initial files and this disk.
	Kept string `json:"kept,omitempty"` // block device for keptDir; empty in other guests
	Said string `json:"said,omitempty"` // content of saidFile
	Deaf bool   `json:"deaf,omitempty"` // fsync(2) has no effect
}

// variant is the parsed name of a guest.
type variant struct {
	kernel string // kernel series
	groups string
	who    string
}

func (v variant) String() string { return v.kernel + "/" + v.groups + "/" + v.who }

// The parts of a variant's name after the kernel.
const (
	groupsV1     = "v1"
	groupsHybrid = "hybrid"
	groupsV2     = "v2"

	whoRoot      = "root"
	whoDelegated = "delegated"
	whoPlain     = "plain"
	whoSystemd   = "systemd"
	whoLogin     = "login"
)

// whos maps each of these users to the need that is added to TEST_REQUIRE in the guest;
// empty if nothing is added.
var whos = map[string]string{whoRoot: "", whoDelegated: "", whoPlain: "", whoSystemd: "systemd", whoLogin: "login"}

func parseVariant(name string) (variant, error) {
	p := strings.Split(name, "/")
	if len(p) != 3 {
		return variant{}, fmt.Errorf("guest %q: want KERNEL/CGROUPS/WHO, for example 6.12/v2/root", name)
	}
	v := variant{kernel: p[0], groups: p[1], who: p[2]}
	_, known := whos[v.who]
	switch {
	case metaPackages[v.kernel] == "":
		return v, fmt.Errorf("guest %q: kernel %q: only 6.12 and 6.1 are known", name, v.kernel)
	case !slices.Contains([]string{groupsV1, groupsHybrid, groupsV2}, v.groups):
		return v, fmt.Errorf("guest %q: control groups %q: want v1, hybrid or v2", name, v.groups)
	case !known:
		return v, fmt.Errorf("guest %q: who %q: want root, delegated, plain, systemd or login", name, v.who)
	case whos[v.who] != "" && v.groups != groupsV2:
		return v, fmt.Errorf("guest %q: a guest with systemd needs control groups of version 2", name)
	case v.kernel == "6.12" && v.groups != groupsV2:
		// CONFIG_MEMCG_V1 is off in Debian's kernel 6.12.
		return v, fmt.Errorf("guest %q: this kernel has no memory controller of version 1; use 6.1", name)
	}
	return v, nil
}

// options are the options of the command line.
type options struct {
	guests  []variant
	cache   string
	dir     string
	memory  int           // MiB
	timeout time.Duration // time limit of one guest
	tally   bool
	cuts    int    // number of power cuts; 0 runs a test instead
	seed    uint64 // seed of the random times and effects of the cuts
	program string
	args    []string
}

func main() {
	if os.Getpid() == 1 {
		first() // does not return
	}
	if len(os.Args) == 2 && os.Args[1] == argEnd {
		reportEnd() // does not return
	}
	if len(os.Args) == 2 && os.Args[1] == argRun {
		fmt.Fprintf(os.Stderr, "vmtest: guest: %v\n", runOrder())
		os.Exit(broken) //nolint:forbidigo // this is a main
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

// required reports whether the value of TEST_REQUIRE requires virtual machines.
func required(want string) bool {
	return slices.ContainsFunc(strings.Split(want, ","), func(name string) bool {
		name = strings.TrimSpace(name)
		return name == "all" || name == "vm"
	})
}

// lackError names what this host lacks for a virtual machine.
type lackError struct{ what string }

func (e *lackError) Error() string { return e.what }

// run carries out the command line and returns the exit status of the first test that
// failed.
func run(ctx context.Context, args []string) (int, error) {
	o, err := parse(args)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(o.cache, 0o750); err != nil {
		return 0, err
	}
	m := machine{memory: o.memory}
	if err := m.find(); err != nil {
		return 0, err
	}
	status := 0
	for _, v := range o.guests {
		life := runGuest
		if o.cuts > 0 {
			life = runCuts
		}
		code, err := life(ctx, m, o, v)
		if err != nil {
			return 0, fmt.Errorf("guest %s: %w", v, err)
		}
		if status == 0 {
			status = code
		}
	}
	return status, nil
}

// runGuest runs the test in one guest and returns its exit status.
func runGuest(ctx context.Context, m machine, o options, v variant) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the guest did not end within %s", o.timeout))
	defer cancel()
	if err := m.choose(ctx, o, v); err != nil {
		return 0, err
	}
	w := order{
		Dir: o.dir, Args: o.args, Groups: v.groups, Delegated: v.who == whoDelegated, Systemd: whos[v.who] != "", Tmp: "/dev/vda",
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "TMPDIR=/tmp", "TEST_REQUIRE=" + strings.Trim(os.Getenv("TEST_REQUIRE")+","+whos[v.who], ","),
			"BELLJAR_TEST_PATIENCE=" + strconv.Itoa(m.patience()), // package testenv reads it
		},
	}
	if v.who != whoRoot && v.who != whoSystemd {
		w.User = guestUser
	}
	if !o.tally {
		m.out = os.Stdout
		return m.boot(ctx, w, o.program)
	}
	log := filepath.Join(o.cache, strings.ReplaceAll(v.String(), "/", "-")+"-"+filepath.Base(o.program)+".log")
	if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	whole, err := os.OpenFile(log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer whole.Close()
	t := newTally(os.Stdout)
	m.out = io.MultiWriter(whole, t)
	start := time.Now()
	code, err := m.boot(ctx, w, o.program)
	t.end(code != 0 || err != nil)
	word := "ok"
	if code != 0 || err != nil {
		word = "FAIL"
	}
	fmt.Fprintf(os.Stdout, "%-5s %-19s passed %d, failed %d, skipped %d, %.0f s by %s\n",
		word, v, t.passed, t.failed, t.skipped, time.Since(start).Seconds(), m.accel)
	if word != "ok" {
		fmt.Fprintf(os.Stdout, "      its whole output: %s\n", log)
	}
	return code, err
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("vmtest", flag.ContinueOnError)
	guests := flags.String("guests", "6.12/v2/root", "guests, each KERNEL/CGROUPS/WHO, with spaces between")
	flags.StringVar(&o.cache, "cache", "bin/vm", "directory for kernels and logs")
	flags.StringVar(&o.dir, "dir", ".", "working directory of the test")
	flags.IntVar(&o.memory, "memory", 2048, "memory of the guest in MiB")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "time limit for each guest")
	flags.BoolVar(&o.tally, "tally", false, "count the tests of each guest, which needs -test.v, and show only what failed")
	flags.IntVar(&o.cuts, "cuts", 0, "cut the power this many times while a program writes")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed for the moments of the cuts, and for what they leave on the disk")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() == 0 {
		return o, errors.New("name the compiled test to run")
	}
	for name := range strings.FieldsSeq(*guests) {
		v, err := parseVariant(name)
		if err != nil {
			return o, err
		}
		o.guests = append(o.guests, v)
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
	if o.dir == "/tmp" || strings.HasPrefix(o.dir, "/tmp/") {
		return o, fmt.Errorf("directory %s: the guest has a /tmp of its own", o.dir)
	}
	return o, nil
}
