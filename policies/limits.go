package policies

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits bound one box and the commands in it. Every field must be above
// zero: a zero limit is refused where it is used, never read as "unlimited".
type Limits struct {
	BoxLimits
	CommandLimits
}

// BoxLimits are set when the box is made: a call whose grant has a higher limit needs
// another box (Grant.Covers). The code that makes a box looks only at these limits.
type BoxLimits struct {
	Memory    int64   // bytes, of the whole box without its /tmp
	Pids      int64   // processes and threads of the whole box
	CPU       float64 // CPUs' worth of time, of the whole box
	Tmp       int64   // bytes of everything that the box stores outside its workspace (/tmp, /dev/shm, home)
	TmpFiles  int64   // inodes of the same storage
	OpenFiles int64   // file descriptors of one process
	FileSize  int64   // bytes of the largest file a process may write
	IO        int64   // bytes a second on the workspace's device, for reads and for writes each
}

// CommandLimits are set for each command, whatever limits the box has: a call with other
// CommandLimits runs in the same box.
type CommandLimits struct {
	Wall       time.Duration // longest life of a foreground command
	Background time.Duration // longest life of a background job
	Jobs       int           // background jobs that run at the same time in one session
	Output     int64         // bytes that are kept of one command's output
}

// The limits of a profile that does not state them.
const (
	DefaultMemory     = 2 << 30          // bytes
	DefaultPids       = 512              // processes and threads
	DefaultCPU        = 2.0              // CPUs' worth of time
	DefaultTmp        = 1 << 30          // bytes
	DefaultTmpFiles   = 200_000          // inodes
	DefaultOpenFiles  = 4096             // file descriptors
	DefaultFileSize   = 1 << 30          // bytes
	DefaultIO         = 1 << 30          // bytes a second
	DefaultWall       = 10 * time.Minute // life of a foreground command
	DefaultBackground = 2 * time.Hour    // life of a background job
	DefaultJobs       = 8                // jobs at the same time in one session
	DefaultOutput     = 64 << 20         // bytes that are kept of one command's output
)

// The tables of limits. Each table has a row for each field that bounds something.
// Everything that this package does with limits follows from the tables: how limits are
// read, their schema and its text, their defaults, Covers, and what layers take away.
//
// The upper bounds are those of the kernel if it has one (pid_max, nr_open), and otherwise
// far above what a profile needs, so that a typing error is found.

// boxLimits are the rows of BoxLimits.
var boxLimits = table[BoxLimits]{
	size("memory", DefaultMemory, 1<<50, func(l *BoxLimits) *int64 { return &l.Memory }, "The memory of the box, without its /tmp."),
	count("pids", DefaultPids, maxPids, func(l *BoxLimits) *int64 { return &l.Pids }, "Processes and threads of the box."),
	cpus("cpu", DefaultCPU, func(l *BoxLimits) *float64 { return &l.CPU }, "How many CPUs the box may use, for example 0.5."),
	size("tmp", DefaultTmp, 1<<50, func(l *BoxLimits) *int64 { return &l.Tmp }, "The size of the box's /tmp and its other storage outside the workspace."),
	count("tmp_files", DefaultTmpFiles, 1<<32, func(l *BoxLimits) *int64 { return &l.TmpFiles }, "Files in the storage of tmp."),
	count("open_files", DefaultOpenFiles, 1<<20, func(l *BoxLimits) *int64 { return &l.OpenFiles }, "Open files of each process; with fewer than 63 a session does not stay in the directory to which a command changed."),
	size("file_size", DefaultFileSize, 1<<50, func(l *BoxLimits) *int64 { return &l.FileSize }, "The largest file that a process may write."),
	size("io", DefaultIO, 1<<50, func(l *BoxLimits) *int64 { return &l.IO }, "Bytes that the box may read in a second, and as many that it may write, on the workspace's device."),
}

// commandLimits are the rows of CommandLimits.
var commandLimits = table[CommandLimits]{
	lasting("wall", DefaultWall, func(l *CommandLimits) *time.Duration { return &l.Wall }, "The longest life of a foreground command."),
	lasting("background", DefaultBackground, func(l *CommandLimits) *time.Duration { return &l.Background }, "The longest life of a background job."),
	count("jobs", DefaultJobs, 1024, func(l *CommandLimits) *int { return &l.Jobs }, "Background jobs of a session that run at the same time."),
	size("output", DefaultOutput, 1<<30, func(l *CommandLimits) *int64 { return &l.Output }, "What is kept of each command's output."),
}

// profileLimits contains all limits of a profile.
var profileLimits = slices.Concat(
	partOf(boxLimits, func(l *Limits) *BoxLimits { return &l.BoxLimits }),
	partOf(commandLimits, func(l *Limits) *CommandLimits { return &l.CommandLimits }),
)

// netLimits contains the limits of what leaves a box.
var netLimits = table[EgressLimits]{
	count("connections", DefaultConns, 65536, func(l *EgressLimits) *int { return &l.Conns }, "Connections that are open at the same time."),
	// From one connection in 100 s to more connections than a host has ports for.
	decimal("rate", DefaultConnRate, 0.01, 100_000, "write how many connections may be opened in a second, for example 100",
		func(l *EgressLimits) *float64 { return &l.Rate }, "New connections in a second."),
	size("bytes", DefaultEgressBytes, 1<<50, func(l *EgressLimits) *int64 { return &l.Bytes }, "Bytes sent and received together, in the life of the box."),
	lasting("idle", DefaultConnIdle, func(l *EgressLimits) *time.Duration { return &l.Idle }, "How long a connection may stay open without a byte."),
	lasting("life", DefaultConnLife, func(l *EgressLimits) *time.Duration { return &l.Life }, "The longest life of a connection."),
}

// actLimits contains the limits of a browser that agents use.
var actLimits = table[ActLimits]{
	size("uploads", DefaultUploads, 1<<40, func(l *ActLimits) *int64 { return &l.Uploads }, "The largest file that a page may get."),
	size("downloads", DefaultDownloads, 1<<40, func(l *ActLimits) *int64 { return &l.Downloads }, "The size of all files that wait to be saved."),
	lasting("idle", DefaultActIdle, func(l *ActLimits) *time.Duration { return &l.Idle }, "The time without a call after which the browser ends."),
}

// totalLimits contains the limits of all boxes of one tenant together.
var totalLimits = table[Totals]{
	size("memory", DefaultTotalMemory, 1<<52, func(t *Totals) *int64 { return &t.Memory }, "Memory, with what the boxes store in it."),
	count("pids", DefaultTotalPids, maxPids, func(t *Totals) *int64 { return &t.Pids }, "Processes and threads."),
	cpus("cpu", DefaultTotalCPU, func(t *Totals) *float64 { return &t.CPU }, "How many CPUs all boxes may use together."),
	count(totalBoxes, DefaultTotalBoxes, 1<<20, func(t *Totals) *int { return &t.Boxes }, "Boxes that are open at the same time."),
	size("disk", DefaultTotalDisk, 1<<52, func(t *Totals) *int64 { return &t.Disk }, "What boxes whose storage is on disk may store there."),
	count("browsers", DefaultTotalBrowsers, 64, func(t *Totals) *int { return &t.Browsers }, "Browsers in which sessions act at the same time."),
	size("egress", DefaultTotalEgress, 1<<52, func(t *Totals) *int64 { return &t.Egress }, "Bytes that leave boxes or enter them through their doors in an hour."),
}

// upstreamTimeouts contains the timeouts of one upstream server.
var upstreamTimeouts = table[UpstreamTimeouts]{
	lasting("handshake", DefaultUpstreamHandshake, func(t *UpstreamTimeouts) *time.Duration { return &t.Handshake }, "From its start to the end of the handshake."),
	lasting("install", DefaultUpstreamInstall, func(t *UpstreamTimeouts) *time.Duration { return &t.Install }, "How long a launcher may take to fetch the server."),
	lasting("call", DefaultUpstreamCall, func(t *UpstreamTimeouts) *time.Duration { return &t.Call }, "How long one call may take, which is then cancelled."),
	lasting("idle", DefaultUpstreamIdle, func(t *UpstreamTimeouts) *time.Duration { return &t.Idle }, "The time without a call after which the server is stopped."),
}

// tenantLimits contains the limits of one tenant: what it may send, and the totals of its
// boxes.
var tenantLimits = append(table[Tenant]{
	limitOf("calls", DefaultTenantRate, func(t *Tenant) *float64 { return &t.Rate }, aRate(), "Calls in a time, after the burst.", func() string { return "100/s" },
		func(d *decoder, n *yaml.Node) (float64, bool) {
			calls, per, ok := d.rate(n, "calls")
			if !ok {
				return 0, false
			}
			return float64(calls) / per.Seconds(), true
		}),
	count("burst", DefaultTenantBurst, 1_000_000, func(t *Tenant) *int { return &t.Burst }, "Calls that may come at the same time before the rate counts."),
	count("in_flight", DefaultTenantInFlight, 100_000, func(t *Tenant) *int { return &t.InFlight }, "Calls that run at the same time; others wait their turn."),
	count("sessions", DefaultTenantSessions, 100_000, func(t *Tenant) *int { return &t.Sessions }, "Sessions over HTTP that are open at the same time."),
	count("streams", DefaultTenantStreams, 100_000, func(t *Tenant) *int { return &t.Streams }, "Streams over HTTP that are open at the same time."),
}, tenantTotals()...)

// tenantTotals returns the totals as limits of a tenant. A total that the tenant does not
// state is that of the policy. If the policy does not state the total of boxes either, the
// tenant has at most DefaultTenantBoxes.
func tenantTotals() table[Tenant] {
	all := partOf(totalLimits, func(t *Tenant) *Totals { return &t.Totals })
	for i := range all {
		all[i].usual = func(*Tenant) {}
		all[i].without = func() string { return "that of totals" }
		if all[i].key == totalBoxes {
			all[i].without = func() string { return fmt.Sprintf("that of totals, if totals states one, or %d", DefaultTenantBoxes) }
		}
	}
	return all
}

// totalBoxes is the key of the total of boxes.
const totalBoxes = "boxes"

// maxPids is the largest pid_max of the kernel on 64 bits.
const maxPids = 4 << 20

// table contains the limits of an L.
type table[L any] []limit[L]

// limit is a row of a table.
type limit[L any] struct {
	key     string
	is      value
	doc     string
	without func() string // returns what counts if the limit is not stated
	usual   func(l *L)    // sets the default
	// reads the limit of a policy; if it returns false, it has left a fault, and l is
	// unchanged
	read func(d *decoder, n *yaml.Node, l *L) bool
	// returns the limit as a number; sizes are below 2^53 and exact in a float
	value func(l *L) float64
	least func(a, b *L) // sets a to the smaller limit; zero means no limit
}

// partOf returns the limits of a P as limits of the L that contains the P.
func partOf[L, P any](part table[P], at func(*L) *P) (all table[L]) {
	for _, one := range part {
		all = append(all, limit[L]{
			key: one.key, is: one.is, doc: one.doc, without: one.without,
			usual: func(l *L) { one.usual(at(l)) },
			read:  func(d *decoder, n *yaml.Node, l *L) bool { return one.read(d, n, at(l)) },
			value: func(l *L) float64 { return one.value(at(l)) },
			least: func(a, b *L) { one.least(at(a), at(b)) },
		})
	}
	return all
}

// number is the type of a limit's value.
type number interface{ ~int | ~int64 | ~float64 }

// limitOf returns a row of a table; at returns the field.
func limitOf[L any, T number](key string, usual T, at func(*L) *T, is value, doc string, shown func() string, read func(*decoder, *yaml.Node) (T, bool)) limit[L] {
	return limit[L]{
		key: key, is: is, doc: doc, without: shown,
		usual: func(l *L) { *at(l) = usual },
		read: func(d *decoder, n *yaml.Node, l *L) bool {
			v, ok := read(d, n)
			if ok {
				*at(l) = v
			}
			return ok
		},
		value: func(l *L) float64 { return float64(*at(l)) },
		least: func(a, b *L) {
			if own, other := at(a), *at(b); *own == 0 || other != 0 && other < *own {
				*own = other
			}
		},
	}
}

// form returns the schema of the limit.
func (l limit[L]) form() *form {
	f := l.is()
	f.Description = l.doc + " Without it: " + l.without() + "."
	return f
}

// size returns a limit in bytes.
func size[L any](key string, usual, most int64, at func(*L) *int64, doc string) limit[L] {
	shown := func() string { return shownSize(usual) }
	return limitOf(key, usual, at, func() *form { return aSize(most, shown())() }, doc, shown, func(d *decoder, n *yaml.Node) (int64, bool) {
		return d.count(n, key, most, true)
	})
}

// count returns a limit that is a whole number.
func count[L any, T int | int64](key string, usual T, most int64, at func(*L) *T, doc string) limit[L] {
	return limitOf(key, usual, at, aCount(most), doc, func() string { return fmt.Sprint(usual) }, func(d *decoder, n *yaml.Node) (T, bool) {
		v, ok := d.count(n, key, most, false)
		return T(v), ok
	})
}

// decimal returns a limit that may have a fraction; hint says how to write it.
func decimal[L any](key string, usual, least, most float64, hint string, at func(*L) *float64, doc string) limit[L] {
	return limitOf(key, usual, at, aNumber(least, most), doc, func() string { return fmt.Sprint(usual) }, func(d *decoder, n *yaml.Node) (float64, bool) {
		return d.number(n, key, hint, least, most)
	})
}

// cpus returns a limit in CPUs' worth of time. A cgroup gives out time in slices of a 100
// ms period, of at least 1 ms: a limit below 0.01 of a CPU cannot be enforced.
func cpus[L any](key string, usual float64, at func(*L) *float64, doc string) limit[L] {
	return decimal(key, usual, 0.01, 65536, "write a number of CPUs, for example 2 or 0.5", at, doc)
}

// lasting returns a limit that is a duration.
func lasting[L any](key string, usual time.Duration, at func(*L) *time.Duration, doc string) limit[L] {
	shown := func() string { return shownTime(usual) }
	return limitOf(key, usual, at, func() *form { return aTime(shown())() }, doc, shown, func(d *decoder, n *yaml.Node) (time.Duration, bool) {
		return d.duration(n, key)
	})
}

// shownSize returns a size in the largest unit that divides it.
func shownSize(n int64) string {
	unit, times := "", int64(1)
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n%units[u] == 0 {
			unit, times = u, units[u]
		}
	}
	return fmt.Sprintf("%d%s", n/times, unit)
}

// shownTime returns a duration in whole hours, minutes or seconds, as the defaults are.
func shownTime(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// usual sets the limits of a policy that states none.
func (t table[L]) usual(l *L) {
	for _, one := range t {
		one.usual(l)
	}
}

// read reads the limits that a mapping states, and replaces those in l.
func (t table[L]) read(d *decoder, o object, l *L) {
	for _, one := range t {
		if v := o.get(one.key); v != nil {
			one.read(d, v, l)
		}
	}
}

// shape returns the shape of a mapping of the limits.
func (t table[L]) shape(name, doc string) *shape {
	s := &shape{name: name, doc: doc}
	for _, one := range t {
		s.keys = append(s.keys, key{one.key, one.form, "", false}) // the form has a doc of its own
	}
	return s
}

// limits reads the limits of a profile, and replaces those in l.
func (d *decoder) limits(n *yaml.Node, l *Limits) {
	if o, ok := d.mapping(n, "limits", limitsShape); ok {
		profileLimits.read(d, o, l)
	}
}

// Unset returns the key of a limit that is not above zero, or an empty text. No box is
// opened with an unset limit.
func (l Limits) Unset() string {
	for _, one := range profileLimits {
		if one.value(&l) <= 0 {
			return one.key
		}
	}
	return ""
}

// within reports whether no limit of l is higher than the same limit of o.
func (l BoxLimits) within(o BoxLimits) bool {
	for _, one := range boxLimits {
		if one.value(&l) > one.value(&o) {
			return false
		}
	}
	return true
}

// least returns the smaller of each limit; zero means no limit.
func (l Limits) least(o Limits) Limits {
	for _, one := range profileLimits {
		one.least(&l, &o)
	}
	return l
}
