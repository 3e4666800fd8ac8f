package sandbox

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"belljar.dev/policies"
)

// Exec is a program that a command started or tried to start. Count says how
// often it did so with the same words. The program that the init itself starts,
// such as the shell of a script, is not an Exec: it is the command.
type Exec struct {
	Argv    []string // what the program was given; at most 32 words and 1 KiB
	Path    string   // path of the file, if its name is not that of Argv[0]
	Cut     bool     // whether words are missing or were shortened
	Verdict policies.Verdict
	Rule    string // rule that decided
	Stopped bool   // whether the policy stopped it
	Count   int
}

// Execs contains the programs that a command started.
type Execs struct {
	Mode    policies.ExecMode
	List    []Exec // at most 64, in the order in which each was first seen
	More    int    // number of programs that were started and are not in List
	Stopped []StoppedExec
}

// StoppedExec is a program that the policy did not let start. At most 8 are kept
// for each command.
type StoppedExec struct {
	Decision policies.Decision
	Count    int
}

// Bounds of what is recorded for one command.
const (
	maxExecs     = 64
	maxExecBytes = 16 << 10 // bytes of all words
	maxExecWords = 32       // words of one program
	maxExecText  = 1 << 10  // bytes of the words of one program
	maxStopped   = 8
)

// execLog contains what a job started. It is guarded by its box's execView.mu.
type execLog struct {
	Execs
	bytes  int
	places map[string]int // index in List, by the key of an Exec
	// process of the last exec, and the key of its program: execvp(3) tries one program in
	// each directory of PATH
	lastPid int
	lastKey string
}

// execOf returns the record of an exec.
func execOf(call policies.Exec, readErr error) Exec {
	e := Exec{Argv: call.Argv, Cut: call.Cut, Count: 1}
	if len(e.Argv) == 0 || path.Base(e.Argv[0]) != path.Base(call.Path) {
		e.Path = clipBytes(call.Path, maxExecText)
	}
	// If the path is a link, the name of the program that it leads to counts.
	if call.Target != "" && path.Base(call.Target) != path.Base(call.Path) {
		e.Path = clipBytes(call.Target, maxExecText)
	}
	if readErr != nil {
		e.Argv, e.Path = nil, ""
	}
	e.clip()
	return e
}

func (e Exec) key() string { return strings.Join(e.Argv, "\x00") + "\x00\x00" + e.Path }

// add counts one exec with that key. With exec: observe, would returns the decision that
// exec: enforce would make.
func (l *execLog) add(e Exec, key string, mode policies.ExecMode, d policies.Decision, would func() policies.Decision) {
	if mode == policies.ExecEnforce {
		e.Verdict, e.Rule, e.Stopped = d.Verdict, d.Rule, d.Verdict != policies.Allow
		key += "\x00" + e.Verdict.String() + e.Rule
	}
	if i, ok := l.places[key]; ok {
		l.List[i].Count++
		return
	}
	size := len(key)
	if len(l.List) == maxExecs || l.bytes+size > maxExecBytes {
		l.More++
		return
	}
	if mode == policies.ExecObserve {
		d = would()
		e.Verdict, e.Rule = d.Verdict, d.Rule
	}
	if l.places == nil {
		l.places = map[string]int{}
	}
	l.bytes += size
	l.places[key] = len(l.List)
	l.List = append(l.List, e)
}

// stop records why the policy did not let a program start.
func (l *execLog) stop(d policies.Decision) {
	for i := range l.Stopped {
		if s := &l.Stopped[i]; s.Decision.Part == d.Part && s.Decision.Rule == d.Rule {
			s.Count++
			return
		}
	}
	if len(l.Stopped) < maxStopped {
		l.Stopped = append(l.Stopped, StoppedExec{d, 1})
	}
}

// clip shortens the words to their bounds.
func (e *Exec) clip() {
	left := maxExecText
	for i, w := range e.Argv {
		if i == maxExecWords || len(w) > left {
			e.Cut = true
			e.Argv = e.Argv[:i:i]
			if i < maxExecWords {
				e.Argv = append(e.Argv, clipBytes(w, left))
			}
			return
		}
		left -= len(w)
	}
}

// clipBytes returns the first n bytes, without a cut character at the end.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Refusal returns the one-line message about the program for the agent.
func (s StoppedExec) Refusal() policies.Refusal { return s.Decision.Stopped(s.Count) }

// Execs returns the programs that the job started since the last call of Execs.
// It lists at most 64, the first ones with different words.
func (j *Job) Execs() Execs {
	v := j.box.means.execs
	if v == nil {
		return Execs{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.untold(j)
	j.execLog = execLog{lastPid: j.execLog.lastPid, lastKey: j.execLog.lastKey}
	return all
}

// untold returns the programs that Execs has not returned yet. The caller holds
// v.mu.
func (v *execView) untold(j *Job) Execs {
	all := j.execLog.Execs
	all.Mode = v.mode
	all.List = slices.Clip(all.List)
	return all
}

// toTell returns the programs that Execs has not returned yet, of a job that has ended, and
// keeps them for Execs. It returns nothing for a nil v.
func (v *execView) toTell(j *Job) Execs {
	if v == nil {
		return Execs{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.untold(j)
}

// startedBy returns the commands of a box that a process may belong to. If several run,
// that is the one whose cgroup has the process, or all of them if the cgroups do
// not show it.
func startedBy(b *Box, pid int) []*Job {
	jobs := b.table.alive()
	if len(jobs) < 2 || !b.means.group.Leaves() {
		return jobs
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return jobs
	}
	for line := range strings.Lines(string(text)) {
		dir, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		for _, j := range jobs {
			if j.leaf != nil && path.Base(j.leaf.Path()) == path.Base(dir) {
				return []*Job{j}
			}
		}
	}
	return jobs
}
