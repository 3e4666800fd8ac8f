package cgroup

import (
	"fmt"
	"path/filepath"
	"strconv"

	"belljar.dev/internal/procfs"
	"belljar.dev/policies"
)

// setting is one file of a cgroup and its value. An optional file exists only with some
// kernel options.
type setting struct {
	file, value string
	optional    bool
}

// bounds are the limits of one box's cgroups.
type bounds struct {
	policies.BoxLimits
	ram  int64 // bytes of memory, with the files that are stored in memory
	disk Disk
}

func v1Limits(ctl string, l bounds) []setting {
	switch ctl {
	case ctlMemory:
		bytes := strconv.FormatInt(l.ram, 10)
		return []setting{
			{"memory.limit_in_bytes", bytes, false},
			{"memory.memsw.limit_in_bytes", bytes, true}, // kernels without swap accounting lack it
		}
	case ctlPids:
		return []setting{{"pids.max", strconv.FormatInt(l.Pids+spare, 10), false}}
	case ctlCPU:
		return []setting{
			{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false},
			{"cpu.cfs_quota_us", strconv.Itoa(int(l.CPU * cpuPeriod)), false},
		}
	case ctlIO:
		return l.disk.v1Limits(l.IO)
	}
	return nil
}

func v2Limits(ctl string, l bounds) []setting {
	switch ctl {
	case ctlMemory:
		return []setting{
			{"memory.max", strconv.FormatInt(l.ram, 10), false},
			{"memory.swap.max", "0", true},
		}
	case ctlPids:
		return []setting{{"pids.max", strconv.FormatInt(l.Pids+spare, 10), false}}
	case ctlCPU:
		return []setting{{"cpu.max", fmt.Sprintf("%d %d", int(l.CPU*cpuPeriod), cpuPeriod), false}}
	case ctlIO:
		return l.disk.v2Limits(l.IO)
	}
	return nil
}

const (
	cpuPeriod = 100_000 // microseconds, the kernel's default
	spare     = 16      // processes above the box's limit: the init and, without leaves, the first process of each command
)

// writeLimits writes the settings of one cgroup.
func writeLimits(dir string, settings []setting) error {
	for _, s := range settings {
		if err := procfs.Write(filepath.Join(dir, s.file), s.value); err != nil && !s.optional {
			return fmt.Errorf("set limit %s=%s: %w", s.file, s.value, err)
		}
	}
	return nil
}

// Processes returns how many processes a box with the limit pids may have: belljar needs
// some in addition to those of the commands.
func Processes(pids int64) int64 { return pids + spare }
