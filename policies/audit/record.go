package audit

import (
	"cmp"
	"slices"
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
	KindLogin    Kind = "login"    // a token was not accepted, was made, or holds no more
	KindCast     Kind = "cast"     // the recording of a background job has ended
	KindUpstream Kind = "upstream" // an operator decided about somebody else's server, or restarted it
	KindWitness  Kind = "witness"  // the log of another worker of the fleet had a checkpoint

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
	// prepared is the record as it is written at a level, without what a log must
	// not contain.
	prepared(r *redactor) any
}

// Client is what an agent's program calls itself.
type Client struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Rule is a rule of a policy that decided, or would have, and its place.
type Rule struct {
	ID      string `json:"id"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Verdict string `json:"verdict"`        // of the call, by this rule
	Mode    string `json:"mode,omitempty"` // warn or audit, of a rule that is not enforced and decided nothing
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
	Acts     []Act    `json:"acts,omitempty"`
	Upstream string   `json:"upstream,omitempty"`
	// ToolNames are the further names of an upstream's tool.
	ToolNames []string `json:"tool_names,omitempty"`
	// Annotations are the hints of an upstream's tool.
	Annotations map[string]bool `json:"annotations,omitempty"`
}

// Act is a policies.Act.
type Act struct {
	Kind   string `json:"kind"`
	On     string `json:"on,omitempty"`
	To     string `json:"to,omitempty"`
	Method string `json:"method,omitempty"`
	Field  string `json:"field,omitempty"`
	Secret string `json:"secret,omitempty"`
	Path   string `json:"path,omitempty"`
}

// ActsOf returns acts as records have them.
func ActsOf(acts []policies.Act) []Act {
	var all []Act
	for _, a := range acts {
		all = append(all, Act{string(a.Kind), a.On, a.To, a.Method, a.Field, a.Secret, a.Path})
	}
	return all
}

// acts returns the acts of a record as a policy sees them.
func (f Facts) acts() []policies.Act {
	var all []policies.Act
	for _, a := range f.Acts {
		all = append(all, policies.Act{Kind: policies.ActKind(a.Kind), On: a.On, To: a.To, Method: a.Method, Field: a.Field, Secret: a.Secret, Path: a.Path})
	}
	return all
}

// Decision is what the policy said to a call.
type Decision struct {
	CallID  string
	Tenant  string
	Place   string // of a fleet; empty elsewhere
	Session string
	Client  Client
	Tool    string
	Args    map[string]any // as decoded; nil if they could not be
	Facts   Facts

	Verdict string
	Rules   []Rule // those that decided, and behind them those that would have
	Part    string // of the call, that decided
	PartNo  int
	Parts   int
	Reason  string
	Policy  string // SHA-256 of the policy
	Profile string // granted
	Took    time.Duration
	TraceID string // of the trace that the call belongs to, if it is traced

	Approval Answer // of the person who was asked; zero where nobody was

	// Level is how much is kept of this call; zero for what the log keeps.
	Level policies.AuditLevel
}

// Answer is the approval that a decision rests on, or waits for.
type Answer struct {
	ID     string
	State  string // as pending or used
	By     string
	Via    string
	Scope  string
	Waited time.Duration
}

// Kind is KindDecision.
func (Decision) Kind() Kind { return KindDecision }

func (d Decision) prepared(*redactor) any { return d }

func (d Decision) write(b *body) {
	level := cmp.Or(d.Level, b.r.level)
	b.str("call_id", d.CallID)
	b.strIfSet("trace_id", d.TraceID)
	b.str("tenant", d.Tenant)
	b.strIfSet("place", d.Place)
	b.str("session", d.Session)
	if d.Client != (Client{}) {
		b.name("client")
		at := len(b.text)
		b.strIfSet("name", clip(b.r.text(d.Client.Name), maxName))
		b.strIfSet("version", clip(b.r.text(d.Client.Version), maxName))
		b.text[at] = '{' // in the place of the first comma
		b.raw(`}`)
	}
	b.str("tool", clip(d.Tool, maxName))
	b.str("verdict", d.Verdict)
	b.rules(d.Rules)
	if level >= policies.AuditRequest {
		b.strIfSet("part", clip(b.r.text(d.Part), maxText))
	}
	b.numIfSet("part_no", int64(d.PartNo))
	b.numIfSet("parts", int64(d.Parts))
	if level >= policies.AuditRequest {
		b.strIfSet("reason", clip(b.r.text(d.Reason), maxText))
	}
	b.str("policy_sha256", d.Policy)
	b.strIfSet("profile", d.Profile)
	b.num("dur_us", d.Took.Microseconds())
	if a := d.Approval; a.ID != "" {
		b.name("approval")
		at := len(b.text)
		b.str("id", a.ID)
		b.strIfSet("state", a.State)
		b.strIfSet("by", clip(b.r.text(a.By), maxName))
		b.strIfSet("via", a.Via)
		b.strIfSet("scope", a.Scope)
		b.num("waited_ms", a.Waited.Milliseconds())
		b.text[at] = '{' // in the place of the first comma
		b.raw(`}`)
	}
	b.args(level, d.Args)
	if level >= policies.AuditRequest {
		b.facts(d.Facts, d.Args)
	}
}

// Outcome is what became of a call that was allowed.
type Outcome struct {
	CallID  string
	Tenant  string
	Place   string // of a fleet; empty elsewhere
	Session string
	Tool    string

	Failed bool
	Error  string
	CommandEnd
	BytesOut  int64
	Truncated bool
	SHA256Out string // of the text that was answered
	DurMS     int64
	Cast      *Recorded // what was shown of it, at the level full
	Result    string    // text that was answered, at the level full

	// Level is how much is kept of this call; zero for what the log keeps.
	Level policies.AuditLevel
}

// CommandEnd is how the command of a call ended, what it used and what it did.
type CommandEnd struct {
	Exit      *int // nil where no command ended
	Signal    string
	OOM       bool
	TimedOut  bool
	TaskID    int64 // of a background job
	CPUMS     int64
	MemPeak   int64 // bytes
	Reverted  int   // changes to protected paths that were taken back
	Blocked   int   // connections that were refused meanwhile
	Execs     []Exec
	ExecsMore int // started besides those
}

// Kind is KindOutcome.
func (Outcome) Kind() Kind { return KindOutcome }

func (o Outcome) prepared(*redactor) any { return o }

func (o Outcome) write(b *body) {
	level := cmp.Or(o.Level, b.r.level)
	b.str("call_id", o.CallID)
	b.str("tenant", o.Tenant)
	b.strIfSet("place", o.Place)
	b.str("session", o.Session)
	b.str("tool", clip(o.Tool, maxName))
	b.boolean("failed", o.Failed)
	if level >= policies.AuditRequest { // it may repeat an argument
		b.strIfSet("error", clip(b.r.text(o.Error), maxText))
	}
	if o.Exit != nil {
		b.num("exit", int64(*o.Exit))
	}
	b.strIfSet("signal", o.Signal)
	b.boolIfTrue("oom", o.OOM)
	b.boolIfTrue("timed_out", o.TimedOut)
	b.numIfSet("task_id", o.TaskID)
	b.num("bytes_out", o.BytesOut)
	b.boolIfTrue("truncated", o.Truncated)
	b.strIfSet("sha256_out", o.SHA256Out)
	b.numIfSet("cpu_ms", o.CPUMS)
	b.numIfSet("mem_peak", o.MemPeak)
	b.numIfSet("reverted", int64(o.Reverted))
	b.numIfSet("blocked", int64(o.Blocked))
	b.execs(level, o.Execs, o.ExecsMore)
	b.num("dur_ms", o.DurMS)
	if o.Cast != nil {
		b.anyValue("cast", o.Cast)
	}
	if level >= policies.AuditFull {
		b.strIfSet("result", clip(b.r.text(o.Result), maxResult))
	}
}

// Approval is what a person said to a question, or that nobody did.
type Approval struct {
	ID       string `json:"id"`
	CallID   string `json:"call_id"`
	Tenant   string `json:"tenant"`
	Session  string `json:"session"`
	Event    string `json:"event"` // asked, given, refused, used, revoked or expired
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
	Tenant   string `json:"tenant"`
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
	Before string `json:"before_sha256,omitempty"` // of the one that held until now
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
	Event string `json:"event"` // start or end; ended or job-ended or box-ended for what an operator ends;
	// browser-held or browser-released, a browser that a person stops or lets go on; applied or
	// discarded, a set of changes; place-frozen, place-thawed, place-left, place-taken or
	// place-exported, a place that moves, without a session
	Tenant string `json:"tenant"`
	// Principal is who of the tenant it belongs to; empty over stdio.
	Principal string `json:"principal,omitempty"`
	Session   string `json:"session"`             // the box of box-ended and of a browser
	Workspace string `json:"workspace,omitempty"` // of its place, if that is not the server's own
	Place     string `json:"place,omitempty"`     // of a fleet; empty elsewhere
	TaskID    int64  `json:"task_id,omitempty"`   // of job-ended
	By        string `json:"by,omitempty"`        // the operator, the policy or the token
	Reason    string `json:"reason,omitempty"`    // of ended: what the session's client is told
	Client    Client `json:"client,omitzero"`     // as it was known then
}

// Kind is KindSession.
func (Session) Kind() Kind { return KindSession }

func (s Session) prepared(r *redactor) any {
	s.Client = Client{clip(r.text(s.Client.Name), maxName), clip(r.text(s.Client.Version), maxName)}
	s.Reason = clip(r.text(s.Reason), maxText)
	return s
}

// Login says that a token was not accepted, was made, or does not hold any more; or that a
// person logged in at the console.
type Login struct {
	Event     string `json:"event"` // refused, created, revoked, expired or console
	Tenant    string `json:"tenant,omitempty"`
	Principal string `json:"principal,omitempty"` // whose token it is, where that is known
	Reason    string `json:"reason,omitempty"`    // of refused, in one word; the role of console
	Detail    string `json:"detail,omitempty"`    // the reason in full
	Count     int    `json:"count,omitempty"`     // further ones since the record before
}

// Kind is KindLogin.
func (Login) Kind() Kind { return KindLogin }

func (l Login) prepared(r *redactor) any {
	l.Principal, l.Detail = clip(r.text(l.Principal), maxName), clip(r.text(l.Detail), maxText)
	return l
}

// Upstream says that an operator decided about pins of somebody else's server, restarted it or logged in at it.
type Upstream struct {
	Event     string   `json:"event"`              // trusted, refused, imported, forgotten, restarted, stopped or login
	Upstream  string   `json:"upstream,omitempty"` // its name; empty for all of the tenant
	Tenant    string   `json:"tenant,omitempty"`
	Workspace string   `json:"workspace,omitempty"` // whose file has its entry, if agents can write that
	Items     []string `json:"items,omitempty"`     // the definitions
	By        string   `json:"by"`
}

// Kind is KindUpstream.
func (Upstream) Kind() Kind { return KindUpstream }

func (u Upstream) prepared(r *redactor) any {
	u.Upstream = clip(r.text(u.Upstream), maxName)
	u.Items = slices.Clone(u.Items)
	for i, item := range u.Items {
		u.Items[i] = clip(r.text(item), 2*maxName)
	}
	return u
}

// Witness says that the log of another worker of the fleet had a checkpoint. See Against.
type Witness struct {
	Worker string `json:"worker"`
	Signed
}

// Kind is KindWitness.
func (Witness) Kind() Kind { return KindWitness }

func (w Witness) prepared(*redactor) any { return w }

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

// JobCast says that the recording of a background job has ended.
type JobCast struct {
	CallID   string `json:"call_id"` // that started it
	Tenant   string `json:"tenant"`
	Session  string `json:"session"`
	Tool     string `json:"tool"`
	DurMS    int64  `json:"dur_ms"`
	Recorded `json:"cast"`
}

// Kind is KindCast.
func (JobCast) Kind() Kind { return KindCast }

func (j JobCast) prepared(*redactor) any { return j }
