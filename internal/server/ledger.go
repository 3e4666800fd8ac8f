package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// ledger records calls, sessions, boxes' connections and policies in the audit log. A nil
// ledger records nothing.
type ledger struct {
	log     *audit.Log
	dir     string
	gate    *gate
	command string
	asked   bool // whether the policy asks for the log
	out     *slog.Logger

	recordings recordings
	witness    witness // only used by a worker of a fleet
}

// placed is the ledger of one place.
type placed struct {
	*ledger
	place string // name of the place in a fleet; empty outside a fleet
}

// openLedger opens the audit log of the policy. Even if the policy asks for no log, a
// server keeps one if it can: it may be the only evidence.
func (s *Server) openLedger(ctx context.Context) error {
	a, asked := s.Policy.Audit()
	if !asked {
		if s.cfg.Service == nil {
			return nil // a nil ledger records nothing
		}
		a = policies.DefaultAudit(policies.AuditRequest)
	}
	if s.cfg.Command == "" || a.Level == policies.AuditNone {
		return nil
	}
	l, err := auditLog(ctx, a, s.Place, s.workspaces(), s.gate, &s.cfg)
	switch {
	case err != nil && !asked:
		s.Log.Warn("no audit log is kept", "err", err)
		return nil
	case err != nil:
		return err
	}
	l.asked, s.audit = asked, l
	if s.places.moves != nil {
		s.places.moves.audit = l
	}
	s.opened.Do(func() {
		if err := l.close(); err != nil {
			s.Log.Error("the end of the audit log was not written", "err", err)
		}
	})
	if a.Required {
		return l.check()
	}
	return nil // prepare checks the key; in a server this happens after the first answer
}

// auditLog opens the log that a policy asks for, in a directory that no box can write.
func auditLog(ctx context.Context, a policies.Audit, at Place, workspaces []string, g *gate, cfg *Config) (*ledger, error) {
	dir := a.Path
	if dir == "" {
		if at.State == "" {
			return nil, errors.New("open audit log: no state directory is known; name one with --state")
		}
		dir = config.AuditDir(at.State)
	}
	if err := outOfReach(dir, workspaces, at.Policy); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	l := &ledger{dir: dir, gate: g, command: cfg.Command, out: at.Log}
	to := audit.Config{Dir: dir, Audit: a, Log: at.Log}
	if cfg.linked() {
		to.Node, to.Signed = cfg.Service.Link.Name, l.witness.signed
	}
	var err error
	if l.log, err = audit.Open(to); err != nil {
		return nil, err
	}
	if cfg.linked() {
		l.witness.remember(ctx, l)
	}
	return l, nil
}

// outOfReach returns an error if a box of a policy can write to the directory of the log.
func outOfReach(dir string, workspaces []string, policy *policies.Policy) error {
	place, profile, err := config.Reached(dir, workspaces, policy, func(m policies.Mount) bool { return m.Writable })
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w; choose audit: {path: ...} in the policy, or another --state", dir, err)
	case profile != "":
		return fmt.Errorf("%s lies in %s, which boxes of the profile %s can write; narrow that, or choose audit: {path: ...}", dir, place, profile)
	case place != "":
		return fmt.Errorf("%s lies in the workspace %s, where an agent can change it; choose a narrower --workspace, or audit: {path: ...} in the policy", dir, place)
	}
	return nil
}

// check checks the log's key, which openLedger only reads. It returns an error if the
// policy asks for the log and the log cannot be signed.
func (l *ledger) check() error {
	if l == nil {
		return nil
	}
	err := l.log.Check()
	if err != nil && !l.asked {
		l.out.Warn("the audit log cannot be signed", "err", err)
		return nil
	}
	return err
}

// close writes the records that wait, and closes the log.
func (l *ledger) close() error {
	if l == nil {
		return nil
	}
	l.witness.forget()
	return l.log.Close()
}

// append writes a record without waiting for it. The log counts lost records, and
// reports them to the operator.
func (l *ledger) append(r audit.Record) {
	if l != nil {
		_ = l.log.Append(r)
	}
}

// commit writes the record of an action before the action. If the policy requires the log,
// commit waits until the record is on the disk, and after an error the action must not be
// done. Otherwise commit is append.
func (l *ledger) commit(ctx context.Context, r audit.Record) error {
	if l == nil || !l.log.Required() {
		l.append(r)
		return nil
	}
	return l.log.Commit(ctx, r)
}

// Decided writes the record of a decision. It waits for the disk if the policy requires the
// record, or if the call could send out data that cannot be taken back.
func (l placed) Decided(ctx context.Context, d mcp.Decided) error {
	if leftOut(d.Decision) {
		return nil
	}
	r := l.decision(d)
	r.Place = l.place
	// A question to a person is recorded before anybody can answer yes.
	risky := d.Decision.Verdict == policies.Ask || d.Decision.Verdict == policies.Allow && (d.Decision.Grant.Network() != policies.NetworkNone || d.Approval != nil)
	required := l.log.Required() || d.Decision.Grant.AuditRequired()
	var err error
	switch {
	case risky:
		err = l.log.Commit(ctx, r)
	case required:
		err = l.log.Write(ctx, r)
	default:
		err = l.log.Append(r)
	}
	if !required {
		return nil // the log counts lost records
	}
	return err
}

// leftOut reports whether the policy wants no record of a call.
func leftOut(d policies.Decision) bool {
	return d.Verdict == policies.Allow && d.Audit.Said && d.Audit.Level == policies.AuditNone
}

// keep returns how much of a call is written; zero means the level of the log.
func keep(d policies.Decision) policies.AuditLevel {
	if !d.Audit.Said {
		return 0
	}
	return max(d.Audit.Level, policies.AuditMeta)
}

func (l *ledger) decision(d mcp.Decided) audit.Decision {
	f, v := d.Facts, d.Decision
	r := audit.Decision{
		CallID: d.Call.ID, Tenant: f.Tenant, Session: control.ShortID(f.Session), Tool: f.Tool, Args: f.Args,
		Facts:   audit.Facts{Profile: f.Profile, Command: f.Command, Env: f.Env, Paths: f.Paths, Hosts: f.Hosts, URLs: f.URLs, Acts: audit.ActsOf(f.Acts), Upstream: f.Upstream, ToolNames: f.ToolNames},
		Verdict: v.Verdict.String(), Part: v.Part, PartNo: v.PartNo, Parts: v.Parts, Reason: v.Reason,
		Policy: cmp.Or(v.Policy, l.gate.now.Load().Hash()), Profile: v.Grant.Profile(), Took: d.Took,
		TraceID: d.Call.TraceID, Level: keep(v),
	}
	if f.Upstream != "" { // the annotations of our own tools are known
		r.Facts.Annotations = f.Annotations
	}
	if a := d.Approval; a != nil {
		r.Approval = audit.Answer{ID: a.ID, State: a.State, By: a.By, Via: a.Via, Scope: a.Scope, Waited: a.Waited}
	}
	if v.Rule != "" {
		r.Rules = []audit.Rule{{ID: v.Rule, File: v.Source.File, Line: v.Source.Line, Verdict: v.Verdict.String()}}
		if d.Approval != nil && v.Rule == d.Approval.Rule {
			r.Rules[0].Verdict = policies.Ask.String() // verdict of the rule itself; the record's verdict is the outcome
		}
	}
	for _, s := range v.Shadow {
		r.Rules = append(r.Rules, audit.Rule{ID: s.Rule, File: s.Source.File, Line: s.Source.Line, Verdict: s.Verdict.String(), Mode: s.Mode.String()})
	}
	if d.Call.Session != nil {
		r.Client.Name, r.Client.Version = d.Call.Session.Client()
	}
	return r
}

// Finished records the outcome of a call that Decided has recorded.
func (l placed) Finished(f mcp.Finished) {
	if leftOut(f.Decision) {
		return
	}
	o := audit.Outcome{
		Level:  keep(f.Decision),
		CallID: f.Call.ID, Tenant: f.Call.Session.Tenant(), Place: l.place, Session: control.ShortID(f.Call.Session.ID()), Tool: f.Call.Tool,
		Failed: f.Err != nil || f.Result.IsError, DurMS: f.Took.Milliseconds(),
	}
	if f.Err != nil {
		o.Error, o.Cast = f.Err.Error(), l.recorded(f.Call.ID)
		l.append(o)
		return
	}
	text := resultText(f.Result)
	sum := sha256.Sum256([]byte(text))
	o.SHA256Out, o.BytesOut = hex.EncodeToString(sum[:]), int64(len(text))
	if m, ok := f.Result.Structured.(mcp.Measured); ok {
		u := m.Usage()
		o.Exit, o.Signal, o.OOM, o.TimedOut, o.TaskID = u.Exit, u.Signal, u.OOM, u.TimedOut, u.TaskID
		o.BytesOut, o.Truncated, o.CPUMS, o.MemPeak = u.Output, u.Truncated, u.CPU.Milliseconds(), u.PeakMemory
		o.Reverted, o.Blocked = u.Reverted, u.Blocked
		for _, e := range u.Execs {
			o.Execs = append(o.Execs, audit.Exec(e))
		}
		o.ExecsMore = u.ExecsMore
	}
	o.Cast = l.recorded(f.Call.ID)
	switch {
	case cmp.Or(o.Level, l.log.Level()) >= policies.AuditFull:
		o.Result = text
	case o.Failed:
		o.Error = text
	}
	l.append(o)
}

// take removes the recordings of a call that has ended, and returns them.
func (r *recordings) take(callID string) (*Recording, *audit.Reel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cast, reel := r.all[callID], r.reels[callID]
	delete(r.all, callID)
	delete(r.reels, callID)
	return cast, reel
}

// recorded returns the record of the recording of a call that has ended. It is nil if the
// call has no recording, or if the recording continues.
func (l *ledger) recorded(callID string) *audit.Recorded {
	if l == nil {
		return nil
	}
	r, reel := l.recordings.take(callID)
	if reel != nil {
		done, _ := reel.Recorded() // it ended with the tool
		return &done
	}
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.detached = true
		return nil
	}
	done, _ := r.Cast.Recorded()
	return &done
}

// resultText returns the text that an agent reads of a result.
func resultText(r *mcp.Result) string {
	if len(r.Content) == 1 {
		return r.Content[0].Text
	}
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Ran records how a command of `belljar run` ended, or why it did not run.
func (s *Server) Ran(id string, d policies.Decision, r sandbox.Result, err error, took time.Duration) {
	s.audit.ran(id, d, r, err, took)
}

func (l *ledger) ran(id string, d policies.Decision, r sandbox.Result, err error, took time.Duration) {
	if leftOut(d) {
		return
	}
	o := audit.Outcome{Level: keep(d), CallID: id, Tenant: d.Grant.Tenant(), Session: "run", Tool: "Bash", Failed: err != nil, DurMS: took.Milliseconds()}
	o.Cast = l.recorded(id)
	if err != nil {
		o.Error = err.Error()
	} else {
		o.Exit, o.OOM, o.TimedOut = &r.Code, r.Status == sandbox.OOM, r.Status == sandbox.TimedOut
		o.CPUMS, o.MemPeak, o.Reverted, o.Blocked = r.Usage.CPU.Milliseconds(), r.Usage.PeakMemory, len(r.Reverted), len(r.Blocked)
		for _, e := range r.Execs.List {
			o.Execs = append(o.Execs, audit.Exec{Argv: e.Argv, Path: e.Path, Cut: e.Cut, Verdict: e.Verdict.String(), Rule: e.Rule, Stopped: e.Stopped, Count: e.Count})
		}
		o.ExecsMore = r.Execs.More
	}
	l.append(o)
}

// egress records a connection at the door of a box.
func (l *ledger) egress(box string, r egress.Record) {
	e := audit.Egress{
		Box: control.ShortID(box), Tenant: r.Tenant, Profile: r.Profile, Proto: r.Proto, Host: r.Host.String(), Port: r.Port, Method: r.Method, Path: r.Path,
		Verdict: policies.Deny.String(), Rule: r.Rule, Reason: r.Reason, Sent: r.Sent, Received: r.Received,
		DurMS: r.Took.Milliseconds(), Secret: r.Secret, Count: r.Count,
	}
	if r.Addr.IsValid() {
		e.Addr = r.Addr.String()
	}
	if r.Allowed {
		e.Verdict = policies.Allow.String()
	}
	l.append(e)
}

// session records that a session began or ended in a workspace. workspace is empty for the
// workspace of the server's own place. place is the name of the place in a fleet.
func (l *ledger) session(event string, s *mcp.Session, workspace, place string) {
	r := audit.Session{Event: event, Tenant: s.Tenant(), Principal: s.Principal(), Session: control.ShortID(s.ID()), Workspace: workspace, Place: place}
	r.Client.Name, r.Client.Version = s.Client()
	l.append(r)
}

// bears returns an error if a box of a policy could write to the log.
func (l *ledger) bears(policy *policies.Policy, workspaces []string) error {
	if l == nil {
		return nil
	}
	if err := outOfReach(l.dir, workspaces, policy); err != nil {
		return fmt.Errorf("policy %s: the audit log of this server: %w", policy.Name(), err)
	}
	return nil
}

// policy records which policy is in force from now on. If it is still the one before,
// reason states why. No call waits for this record, and no decision by the policy is
// recorded before it.
func (l *ledger) policy(event, file string, before, holds *policies.Policy, reason string) {
	r := audit.PolicyChange{Event: event, File: file, SHA256: holds.Hash(), Reason: reason}
	if before != holds {
		r.Before = before.Hash()
	}
	l.append(r)
}

// server records that a server begins or ends.
func (l *ledger) server(event, transport string, at Place) {
	if l == nil {
		return
	}
	p := l.gate.now.Load()
	l.append(audit.Server{
		Event: event, Version: buildinfo.Version(), Command: l.command, Transport: transport,
		Workspace: at.Workspace, Policy: at.PolicyName, SHA256: p.Hash(), Level: l.log.Level().String(),
	})
}

func (l *ledger) health() control.Audit {
	if l == nil {
		return control.Audit{}
	}
	return control.Audit{Dir: l.dir, Health: l.log.Health()}
}
