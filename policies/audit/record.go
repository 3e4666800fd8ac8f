package audit

import (
	"time"

	"belljar.dev/policies"
)

// Kind says what a record is about.
type Kind string

// The kinds. Those from KindFile on are written by the log itself.
const (
	KindDecision Kind = "decision" // what the policy said to a call, before it runs
	KindOutcome  Kind = "outcome"  // what became of a call that was allowed
	KindApproval Kind = "approval" // what a person said
	KindEgress   Kind = "egress"   // what went, or did not go, through the door of a box
	KindPolicy   Kind = "policy"   // another policy holds, or could not be read
	KindSession  Kind = "session"  // a session began or ended
	KindServer   Kind = "server"   // a server began or ended

	KindFile       Kind = "file"       // a file begins, after another one
	KindRemoved    Kind = "removed"    // old files are deleted
	KindTorn       Kind = "torn"       // a crash had cut a record
	KindDropped    Kind = "dropped"    // records were lost
	KindMissing    Kind = "missing"    // records are gone that a checkpoint signed
	KindCheckpoint Kind = "checkpoint" // signs all before it
)

// Record is what can be appended to a log: one of the types of this package
// with a Kind.
type Record interface {
	Kind() Kind
	// prepared is the record as it is written at a level, with what must not
	// stand in it taken out.
	prepared(r *redactor) any
}

// Client is what an agent's program calls itself.
type Client struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Rule is a rule of a policy that decided, and its place.
type Rule struct {
	ID      string `json:"id"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Verdict string `json:"verdict"`
}

// Facts are what a call showed the policy, so that the same call can be
// decided again under another policy.
type Facts struct {
	Profile  string   `json:"profile,omitempty"` // asked for
	Command  string   `json:"command,omitempty"`
	Env      []string `json:"env,omitempty"` // names
	Paths    []string `json:"paths,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`
	URLs     []string `json:"urls,omitempty"`
	Upstream string   `json:"upstream,omitempty"`
}

func (f Facts) empty() bool {
	return f.Profile == "" && f.Command == "" && f.Upstream == "" && len(f.Env)+len(f.Paths)+len(f.Hosts)+len(f.URLs) == 0
}

// Decision is what the policy said to a call.
type Decision struct {
	CallID  string
	Tenant  string
	Session string
	Client  Client
	Tool    string
	Args    map[string]any // as decoded; nil if they could not be
	Facts   Facts

	Verdict string
	Rules   []Rule // those that decided
	Part    string // of the call, that decided
	PartNo  int
	Parts   int
	Reason  string
	Policy  string // SHA-256 of the policy
	Profile string // granted
	Took    time.Duration
}

// Kind is KindDecision.
func (Decision) Kind() Kind { return KindDecision }

type decisionLine struct {
	CallID       string  `json:"call_id"`
	Tenant       string  `json:"tenant"`
	Session      string  `json:"session"`
	Client       *Client `json:"client,omitempty"`
	Tool         string  `json:"tool"`
	Verdict      string  `json:"verdict"`
	Rules        []Rule  `json:"rules"`
	Part         string  `json:"part,omitempty"`
	PartNo       int     `json:"part_no,omitempty"`
	Parts        int     `json:"parts,omitempty"`
	Reason       string  `json:"reason,omitempty"`
	PolicySHA256 string  `json:"policy_sha256"`
	Profile      string  `json:"profile,omitempty"`
	DurUS        int64   `json:"dur_us"`
	ArgsLevel    string  `json:"args_level"`
	Args         any     `json:"args,omitempty"`
	ArgsHMAC     string  `json:"args_hmac,omitempty"`
	ArgsBytes    int     `json:"args_bytes,omitempty"`
	Facts        *Facts  `json:"facts,omitempty"`
}

func (d Decision) prepared(r *redactor) any {
	line := decisionLine{
		CallID: d.CallID, Tenant: d.Tenant, Session: d.Session, Tool: d.Tool, Verdict: d.Verdict,
		Rules: d.Rules, PartNo: d.PartNo, Parts: d.Parts, Reason: r.text(d.Reason),
		PolicySHA256: d.Policy, Profile: d.Profile, DurUS: d.Took.Microseconds(), ArgsLevel: r.level.String(),
	}
	if line.Rules == nil {
		line.Rules = []Rule{}
	}
	if d.Client != (Client{}) {
		c := Client{clip(r.text(d.Client.Name), maxName), clip(r.text(d.Client.Version), maxName)}
		line.Client = &c
	}
	r.request(&line, d)
	return line
}

// Outcome is what became of a call that was allowed.
type Outcome struct {
	CallID  string `json:"call_id"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Tool    string `json:"tool"`

	Failed    bool   `json:"failed"`
	Error     string `json:"error,omitempty"`
	Exit      *int   `json:"exit,omitempty"` // nil where no command ended
	Signal    string `json:"signal,omitempty"`
	OOM       bool   `json:"oom,omitempty"`
	TimedOut  bool   `json:"timed_out,omitempty"`
	TaskID    int64  `json:"task_id,omitempty"` // of a background job
	BytesOut  int64  `json:"bytes_out"`
	Truncated bool   `json:"truncated,omitempty"`
	SHA256Out string `json:"sha256_out,omitempty"` // of the text that was answered
	CPUMS     int64  `json:"cpu_ms,omitempty"`
	MemPeak   int64  `json:"mem_peak,omitempty"` // bytes
	Reverted  int    `json:"reverted,omitempty"` // changes to protected paths that were taken back
	Blocked   int    `json:"blocked,omitempty"`  // connections that were refused meanwhile
	DurMS     int64  `json:"dur_ms"`
	Result    string `json:"result,omitempty"` // text that was answered, at the level full
}

// Kind is KindOutcome.
func (Outcome) Kind() Kind { return KindOutcome }

func (o Outcome) prepared(r *redactor) any {
	o.Error = clip(r.text(o.Error), maxText)
	if r.level < policies.AuditRequest {
		o.Error = "" // it may repeat an argument
	}
	o.Result = r.result(o.Result)
	return o
}

// Approval is what a person said to a question, or that nobody did.
type Approval struct {
	ID       string `json:"id"`
	CallID   string `json:"call_id"`
	Tenant   string `json:"tenant"`
	Session  string `json:"session"`
	Event    string `json:"event"` // asked, given, refused or expired
	By       string `json:"by,omitempty"`
	Via      string `json:"via,omitempty"`
	Scope    string `json:"scope,omitempty"`
	WaitedMS int64  `json:"waited_ms,omitempty"`
}

// Kind is KindApproval.
func (Approval) Kind() Kind { return KindApproval }

func (a Approval) prepared(*redactor) any { return a }

// Egress is one connection or request that met the door of a box.
type Egress struct {
	Box      string `json:"box"`
	Profile  string `json:"profile"`
	Proto    string `json:"proto"`
	Host     string `json:"host,omitempty"`
	Addr     string `json:"addr,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Method   string `json:"method,omitempty"`
	Path     string `json:"path,omitempty"` // without its query
	Verdict  string `json:"verdict"`
	Rule     string `json:"rule,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Sent     int64  `json:"bytes_sent"`
	Received int64  `json:"bytes_received"`
	DurMS    int64  `json:"dur_ms"`
	Secret   string `json:"secret,omitempty"` // name of the one that was added
	Count    int    `json:"count,omitempty"`  // of the same, where above 1
}

// Kind is KindEgress.
func (Egress) Kind() Kind { return KindEgress }

func (e Egress) prepared(r *redactor) any {
	e.Host, e.Method = clip(r.text(e.Host), maxName), clip(r.text(e.Method), maxName)
	e.Path, e.Reason = clip(r.text(e.Path), maxText), clip(r.text(e.Reason), maxText)
	return e
}

// PolicyChange says that a policy holds from now on, or why one does not.
type PolicyChange struct {
	Event  string `json:"event"` // read, or refused where the one before holds on
	File   string `json:"file"`
	SHA256 string `json:"policy_sha256,omitempty"` // of the policy that holds
	Reason string `json:"reason,omitempty"`
}

// Kind is KindPolicy.
func (PolicyChange) Kind() Kind { return KindPolicy }

func (p PolicyChange) prepared(r *redactor) any {
	p.Reason = clip(r.text(p.Reason), maxText)
	return p
}

// Session says that a session began or ended.
type Session struct {
	Event   string `json:"event"` // start or end
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Client  Client `json:"client,omitzero"` // as it was known then
}

// Kind is KindSession.
func (Session) Kind() Kind { return KindSession }

func (s Session) prepared(r *redactor) any {
	s.Client = Client{clip(r.text(s.Client.Name), maxName), clip(r.text(s.Client.Version), maxName)}
	return s
}

// Server says that a server began or ended.
type Server struct {
	Event     string `json:"event"` // start or stop
	Version   string `json:"version"`
	Command   string `json:"command"` // as serve
	Transport string `json:"transport,omitempty"`
	Workspace string `json:"workspace"`
	Policy    string `json:"policy"`
	SHA256    string `json:"policy_sha256"`
	Level     string `json:"level"` // of the log
}

// Kind is KindServer.
func (Server) Kind() Kind { return KindServer }

func (s Server) prepared(*redactor) any { return s }
