package sandbox

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// mostNested bounds the user namespaces and the network namespaces in a box: a browser
// makes one of each for all its renderers, and a few to test whether it can.
const mostNested = 32

// nestKnobs bounds the namespaces of a box that nests. Each of its processes
// may have a pid namespace of its own.
func (p *plan) nestKnobs(b *builder) {
	if p.nests == 0 {
		return
	}
	b.knob("/proc/sys/user/max_user_namespaces", strconv.Itoa(mostNested), unix.ENOENT)
	b.knob("/proc/sys/user/max_net_namespaces", strconv.Itoa(mostNested), unix.ENOENT)
	b.knob("/proc/sys/user/max_pid_namespaces", strconv.FormatInt(p.nests, 10), unix.ENOENT)
}
