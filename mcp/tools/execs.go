package tools

import (
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// starts contains the programs that a job started since the last call of startsOf, for the
// audit log, and the refusals of stopped programs, for the agent.
type starts struct {
	execs   []mcp.Exec
	more    int
	stopped []string
	first   *policies.Refusal // the first refusal of stopped, or nil
}

// startsOf collects the programs of a job. Only one call reports each program.
func startsOf(job *sandbox.Job) starts {
	all := job.Execs()
	s := starts{more: all.More}
	for _, e := range all.List {
		s.execs = append(s.execs, mcp.Exec{
			Argv: e.Argv, Path: e.Path, Cut: e.Cut, Verdict: e.Verdict.String(), Rule: e.Rule, Stopped: e.Stopped, Count: e.Count,
		})
	}
	for _, e := range all.Stopped {
		r := e.Refusal()
		if s.first == nil {
			s.first = &r
		}
		s.stopped = append(s.stopped, r.Text())
	}
	return s
}

// add adds the programs to the usage of a command.
func (s starts) add(u mcp.Usage) mcp.Usage {
	u.Execs, u.ExecsMore = s.execs, s.more
	return u
}

// tell adds the refusals to a result.
func (s starts) tell(t *text) {
	for _, line := range s.stopped {
		t.note(line)
	}
}
