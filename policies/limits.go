package policies

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits bound one box and the commands in it. Every field must be above
// zero: a zero limit is refused where it is used, never read as "unlimited".
type Limits struct {
	Memory     int64         // bytes, of the whole box without its /tmp
	Pids       int64         // processes and threads of the whole box
	CPU        float64       // CPUs' worth of time, of the whole box
	Tmp        int64         // bytes of all that the box stores outside its workspace (/tmp, /dev/shm, home)
	TmpFiles   int64         // inodes of the same
	OpenFiles  int64         // file descriptors of one process
	FileSize   int64         // bytes of the largest file a process may write
	IO         int64         // bytes a second, read and written each, on the workspace's device
	Wall       time.Duration // longest life of a foreground command
	Background time.Duration // longest life of a background job
	Jobs       int           // background jobs running at once in one session
	Output     int64         // bytes kept of one command's output
}

// The limits of a profile that does not name them.
const (
	DefaultMemory     = 2 << 30          // bytes
	DefaultPids       = 512              // processes and threads
	DefaultCPU        = 2.0              // CPUs' worth of time
	DefaultTmp        = 1 << 30          // bytes
	DefaultTmpFiles   = 200_000          // inodes
	DefaultOpenFiles  = 4096             // file descriptors
	DefaultFileSize   = 1 << 30          // bytes
	DefaultIO         = 1 << 30          // bytes a second
	DefaultWall       = 10 * time.Minute // of a foreground command
	DefaultBackground = 2 * time.Hour    // of a background job
	DefaultJobs       = 8                // at once in one session
	DefaultOutput     = 64 << 20         // bytes kept of one command
)

// limitTable has a row for each field of Limits. All that this package does with
// limits follows from it: how they are read, their schema and its text, their
// defaults, Covers, and what layers take away.
//
// The upper ends are those of the kernel where it has one (pid_max, nr_open) and
// otherwise far above what a profile means, so that a slip of the pen is caught.
var limitTable = []limit{
	size("memory", ofBox, DefaultMemory, 1<<50, func(l *Limits) *int64 { return &l.Memory }, "Of the box, without its /tmp."),
	count("pids", ofBox, DefaultPids, 4<<20, func(l *Limits) *int64 { return &l.Pids }, "Processes and threads of the box."),
	cpus("cpu", ofBox, DefaultCPU, func(l *Limits) *float64 { return &l.CPU }, "CPUs' worth of time of the box."),
	size("tmp", ofBox, DefaultTmp, 1<<50, func(l *Limits) *int64 { return &l.Tmp }, "Of the box's /tmp and its other storage outside the workspace."),
	count("tmp_files", ofBox, DefaultTmpFiles, 1<<32, func(l *Limits) *int64 { return &l.TmpFiles }, "Files in the same."),
	count("open_files", ofBox, DefaultOpenFiles, 1<<20, func(l *Limits) *int64 { return &l.OpenFiles }, "Of each process."),
	size("file_size", ofBox, DefaultFileSize, 1<<50, func(l *Limits) *int64 { return &l.FileSize }, "The largest file that a process may write."),
	size("io", ofBox, DefaultIO, 1<<50, func(l *Limits) *int64 { return &l.IO }, "Bytes a second, read and written each, on the workspace's device."),
	lasting("wall", ofCommand, DefaultWall, func(l *Limits) *time.Duration { return &l.Wall }, "The longest life of a foreground command."),
	lasting("background", ofCommand, DefaultBackground, func(l *Limits) *time.Duration { return &l.Background }, "The longest life of a background job."),
	count("jobs", ofCommand, DefaultJobs, 1024, func(l *Limits) *int { return &l.Jobs }, "Background jobs of a session at once."),
	size("output", ofCommand, DefaultOutput, 1<<30, func(l *Limits) *int64 { return &l.Output }, "What is kept of each command's output."),
}

// scope is what a limit bounds.
type scope bool

const (
	ofBox     scope = true  // made with the box: a box with less does not serve the call
	ofCommand scope = false // given with each command, whatever the box has
)

// limit is a row of limitTable.
type limit struct {
	key   string
	of    scope
	form  *form
	doc   string
	usual func(l *Limits)                           // sets the default
	read  func(d *decoder, n *yaml.Node, l *Limits) // of a policy
	unset func(l Limits) bool                       // not above zero
	above func(a, b Limits) bool                    // a has more of it
	least func(a *Limits, b Limits)                 // a gets the smaller; zero stands for none
}

// number is what a limit is counted in.
type number interface{ ~int | ~int64 | ~float64 }

// limitOf makes a row; at returns the field.
func limitOf[T number](key string, of scope, usual T, at func(*Limits) *T, is *form, doc, shown string, read func(*decoder, *yaml.Node) (T, bool)) limit {
	return limit{
		key: key, of: of, form: is, doc: doc + " Without it: " + shown + ".",
		usual: func(l *Limits) { *at(l) = usual },
		read: func(d *decoder, n *yaml.Node, l *Limits) {
			if v, ok := read(d, n); ok {
				*at(l) = v
			}
		},
		unset: func(l Limits) bool { return *at(&l) <= 0 },
		above: func(a, b Limits) bool { return *at(&a) > *at(&b) },
		least: func(a *Limits, b Limits) { *at(a) = least(*at(a), *at(&b)) },
	}
}

// size is a limit in bytes.
func size(key string, of scope, usual, most int64, at func(*Limits) *int64, doc string) limit {
	shown := shownSize(usual)
	return limitOf(key, of, usual, at, aSize(most, shown), doc, shown, func(d *decoder, n *yaml.Node) (int64, bool) {
		return d.count(n, key, most, true)
	})
}

// count is a limit that is a whole number.
func count[T int | int64](key string, of scope, usual T, most int64, at func(*Limits) *T, doc string) limit {
	return limitOf(key, of, usual, at, aCount(most), doc, fmt.Sprint(usual), func(d *decoder, n *yaml.Node) (T, bool) {
		v, ok := d.count(n, key, most, false)
		return T(v), ok
	})
}

// cpus is a limit in CPUs' worth of time.
func cpus(key string, of scope, usual float64, at func(*Limits) *float64, doc string) limit {
	return limitOf(key, of, usual, at, aNumber(leastCPU, mostCPU), doc, fmt.Sprint(usual), (*decoder).cpus)
}

// lasting is a limit in time.
func lasting(key string, of scope, usual time.Duration, at func(*Limits) *time.Duration, doc string) limit {
	shown := shownTime(usual)
	return limitOf(key, of, usual, at, aTime(shown), doc, shown, func(d *decoder, n *yaml.Node) (time.Duration, bool) {
		return d.duration(n, key)
	})
}

// shownSize writes a size in the largest unit that divides it.
func shownSize(n int64) string {
	unit, times := "", int64(1)
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n%units[u] == 0 {
			unit, times = u, units[u]
		}
	}
	return fmt.Sprintf("%d%s", n/times, unit)
}

// shownTime is a time in whole hours or minutes, as the defaults are.
func shownTime(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}

// defaultLimits are the limits of a profile that names none.
func defaultLimits() (l Limits) {
	for _, one := range limitTable {
		one.usual(&l)
	}
	return l
}

// limits reads the bounds of a box over the defaults in l.
func (d *decoder) limits(n *yaml.Node, l *Limits) {
	o, ok := d.mapping(n, "limits", limitsShape)
	if !ok {
		return
	}
	for _, one := range limitTable {
		if v := o.get(one.key); v != nil {
			one.read(d, v, l)
		}
	}
}

var limitsShape = func() *shape {
	s := &shape{name: "limits", doc: "What a box may use."}
	for _, one := range limitTable {
		s.keys = append(s.keys, key{one.key, one.form, one.doc, false})
	}
	return s
}()

// Unset returns the key of a limit that is not above zero, or nothing. No box is
// opened where a limit is unset.
func (l Limits) Unset() string {
	for _, one := range limitTable {
		if one.unset(l) {
			return one.key
		}
	}
	return ""
}

// within reports whether no wall of l is wider than that of o.
func (l Limits) within(o Limits) bool {
	for _, one := range limitTable {
		if one.of == ofBox && one.above(l, o) {
			return false
		}
	}
	return true
}

// least is the smaller of each limit; zero stands for none.
func (l Limits) least(o Limits) Limits {
	for _, one := range limitTable {
		one.least(&l, o)
	}
	return l
}

func least[T number](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
