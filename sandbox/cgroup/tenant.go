package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
)

// share is one tenant's directory in every hierarchy, between the supervisor's directory
// and those of the tenant's boxes. It contains the tenant's totals, which the kernel counts
// over all cgroups below. It never contains a process: on v2 it enables controllers for the
// boxes, and a cgroup that does so must not contain processes (cgroups(7), "no internal
// processes").
//
// The tenant's total counts files that are stored in memory as memory. The limit of a box
// has room for these files in addition to its memory: otherwise a full /tmp would look like
// a command that ran out of memory.
type share struct {
	tenant string
	name   string // name of the directories; never used again, so that a late removal does not remove a new share
	boxes  int    // guarded by Tree.mu

	// mu lets the first box of a tenant make the directories while other boxes of the same
	// tenant wait. Boxes of other tenants do not wait, so mu may be held during the
	// writing.
	mu     sync.Mutex
	made   bool
	totals policies.Totals // totals as they were written last
}

// enter adds a box to its tenant's share, which it makes for the first box. The totals are
// those of the newest grant: a policy may have changed.
func (t *Tree) enter(tenant string, totals policies.Totals) (*share, error) {
	t.mu.Lock()
	s := t.shares[tenant]
	if s == nil {
		t.lastShare++
		s = &share{tenant: tenant, name: "tenant-" + strconv.Itoa(t.lastShare)}
		t.shares[tenant] = s
	}
	s.boxes++
	t.mu.Unlock()
	if err := s.hold(t, totals); err != nil {
		t.leave(s)
		return nil, err
	}
	return s, nil
}

// keptShares is how many tenants keep their share when their last box is closed: making a
// share costs a third of what a box's own cgroups cost.
const keptShares = 64

// leave removes a box from its share, and removes the share with the last box if there are
// many shares.
func (t *Tree) leave(s *share) {
	t.mu.Lock()
	s.boxes--
	remove := s.boxes == 0 && len(t.shares) > t.kept
	if remove {
		delete(t.shares, s.tenant)
	}
	t.mu.Unlock()
	if !remove {
		return
	}
	for _, top := range t.dirs() {
		boxinit.RemoveCgroups(filepath.Join(top, s.name))
	}
}

// hold makes the directories and writes the totals into them.
func (s *share) hold(t *Tree, totals policies.Totals) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made && s.totals == totals {
		return nil
	}
	if !s.made {
		for _, top := range t.dirs() {
			if err := os.Mkdir(filepath.Join(top, s.name), 0o755); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
		for ctl := range t.v2ctl {
			if err := writeLimits(filepath.Join(t.v2, s.name), []setting{{"cgroup.subtree_control", "+" + ctl, false}}); err != nil {
				return err
			}
		}
	}
	for ctl, top := range t.v1 {
		if err := writeLimits(filepath.Join(top, s.name), v1Totals(ctl, totals)); err != nil {
			return err
		}
	}
	for ctl := range t.v2ctl {
		if err := writeLimits(filepath.Join(t.v2, s.name), v2Totals(ctl, totals)); err != nil {
			return err
		}
	}
	s.made, s.totals = true, totals
	return nil
}

// Pids returns the number of processes and threads of all boxes of a tenant, or zero if no
// cgroup counts them.
func (t *Tree) Pids(tenant string) int64 {
	t.mu.Lock()
	s := t.shares[tenant]
	t.mu.Unlock()
	if s == nil {
		return 0
	}
	used, _ := s.pids(t)
	return used
}

// pids returns the number of processes and threads that the kernel counts, or an error if
// it counts none.
func (s *share) pids(t *Tree) (int64, error) {
	top := t.v1[ctlPids]
	if t.v2ctl[ctlPids] {
		top = t.v2
	}
	return strconv.ParseInt(word(filepath.Join(top, s.name, "pids.current")), 10, 64)
}

// room refuses a box if the tenant's other boxes have all of the tenant's processes. The
// kernel would refuse its init too, but could not say whose limit it was.
func (s *share) room(t *Tree) error {
	used, err := s.pids(t)
	if err != nil {
		return nil //nolint:nilerr // without the controller no limit can be checked
	}
	s.mu.Lock()
	most := s.totals.Pids
	s.mu.Unlock()
	if used+spare > most {
		return &limit.Refusal{
			Message: fmt.Sprintf("the boxes of tenant %q run %d of the %d processes that the totals of the policy allow (quota pids); end some, or another session", s.tenant, used, most),
			Err:     limit.ErrTooMany,
		}
	}
	return nil
}

func v1Totals(ctl string, t policies.Totals) []setting {
	switch ctl {
	case ctlMemory:
		bytes := strconv.FormatInt(t.Memory, 10)
		return []setting{
			// Before Linux 5.11 a cgroup counted the cgroups below it only if this was set.
			{"memory.use_hierarchy", "1", true},
			// The limit on memory with swap must never be below the limit on memory alone.
			// So the first write fails if the totals shrink or were not set before, and
			// then the last write sets the limit.
			{"memory.memsw.limit_in_bytes", bytes, true},
			{"memory.limit_in_bytes", bytes, false},
			{"memory.memsw.limit_in_bytes", bytes, true},
		}
	case ctlPids:
		return []setting{{"pids.max", strconv.FormatInt(t.Pids, 10), false}}
	case ctlCPU:
		return []setting{
			{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false},
			{"cpu.cfs_quota_us", strconv.Itoa(int(t.CPU * cpuPeriod)), false},
		}
	}
	return nil
}

func v2Totals(ctl string, t policies.Totals) []setting {
	switch ctl {
	case ctlMemory:
		return []setting{
			{"memory.max", strconv.FormatInt(t.Memory, 10), false},
			{"memory.swap.max", "0", true},
		}
	case ctlPids:
		return []setting{{"pids.max", strconv.FormatInt(t.Pids, 10), false}}
	case ctlCPU:
		return []setting{{"cpu.max", fmt.Sprintf("%d %d", int(t.CPU*cpuPeriod), cpuPeriod), false}}
	}
	return nil
}
