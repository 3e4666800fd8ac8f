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
	KindApproval Kind = "approval" // what happened to a question to a person
	KindEgress   Kind = "egress"   // a connection or request at the door of a box, let through or not
	KindPolicy   Kind = "policy"   // another policy is in force, or a policy could not be read
	KindSession  Kind = "session"  // a session began or ended
	KindServer   Kind = "server"   // a server began or ended
	KindLogin    Kind = "login"    // a token was refused, was made or is no longer valid, or a person logged in
	KindCast     Kind = "cast"     // the recording of a background job has ended
	KindUpstream Kind = "upstream" // an operator decided about an upstream server, or restarted it
	KindWitness  Kind = "witness"  // the log of another worker of the fleet had a checkpoint

	KindFile       Kind = "file"       // the beginning of a file that follows another file
	KindRemoved    Kind = "removed"    // old files are deleted
	KindTorn       Kind = "torn"       // a crash had cut a record
	KindDropped    Kind = "dropped"    // records were lost
	KindMissing    Kind = "missing"    // records that a checkpoint signed are missing
	KindCheckpoint Kind = "checkpoint" // signs all records before it
)

// Record is what can be appended to a log: one of the types of this package
// with a Kind.
type Record interface {
	Kind() Kind
	// prepared returns the record as it is written at the level of r, without what a log
	// must not contain.
	prepared(r *redactor) any
}

// Client is what an agent's program calls itself.
type Client struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Rule is a rule of a policy that decided, or would have decided, and its place.
type Rule struct {
	ID      string `json:"id"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Verdict string `json:"verdict"`        // verdict of this rule for the call
	Mode    string `json:"mode,omitempty"` // warn or audit, if the rule is not enforced and decided nothing
}

// Facts are what a call showed the policy, so that the same call can be
// decided again under another policy.
type Facts struct {
	Profile  string   `json:"profile,omitempty"` // profile that the call asked for
	Command  string   `json:"command,omitempty"`
	Env      []string `json:"env,omitempty"` // names of the variables
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

// ActsOf returns acts in the form of records.
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

// Decision is what the policy decided about a call.
type Decision struct {
	CallID  string
	Tenant  string
	Place   string // place of a fleet; empty outside a fleet
	Session string
	Client  Client
	Tool    string
	Args    map[string]any // arguments as decoded; nil if they could not be decoded
	Facts   Facts

	Verdict string
	Rules   []Rule // rules that decided, and after them those that would have decided
	Part    string // part of the call that decided
	PartNo  int
	Parts   int
	Reason  string
	Policy  string // SHA-256 of the policy
	Profile string // profile that was granted
	Took    time.Duration
	TraceID string // id of the trace that the call belongs to; empty if it is not traced

	Approval Answer // answer of the person who was asked; zero if nobody was asked

	// Level is how much is kept of this call. If it is zero, the level of the log counts.
	Level policies.AuditLevel
}

// Answer is the approval that a decision rests on, or waits for.
type Answer struct {
	ID     string
	State  string // for example pending or used
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
		b.text[at] = '{' // replaces the first comma
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
		b.text[at] = '{' // replaces the first comma
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
	Place   string // place of a fleet; empty outside a fleet
	Session string
	Tool    string

	Failed bool
	Error  string
	CommandEnd
	BytesOut  int64
	Truncated bool
	SHA256Out string // SHA-256 of the text that was answered
	DurMS     int64
	Cast      *Recorded // recording of what the call showed, at the level full
	Result    string    // text that was answered, at the level full

	// Level is how much is kept of this call. If it is zero, the level of the log counts.
	Level policies.AuditLevel
}

// CommandEnd is how the command of a call ended, what it used and what it did.
type CommandEnd struct {
	Exit      *int // exit status; nil if no command ended
	Signal    string
	OOM       bool
	TimedOut  bool
	TaskID    int64 // task id of a background job
	CPUMS     int64
	MemPeak   int64 // most memory, in bytes
	Reverted  int   // changes to protected paths that were taken back
	Blocked   int   // connections that were refused while the command ran
	Execs     []Exec
	ExecsMore int // number of started programs that are not in Execs
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
	if level >= policies.AuditRequest { // the error may repeat an argument
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

// Approval is what happened to a question to a person, for example the answer.
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

// Egress is one connection or request that reached the door of a box.
type Egress struct {
	Box      string `json:"box"`
	Tenant   string `json:"tenant"`
	Profile  string `json:"profile"`
	Proto    string `json:"proto"`
	Host     string `json:"host,omitempty"`
	Addr     string `json:"addr,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Method   string `json:"method,omitempty"`
	Path     string `json:"path,omitempty"` // path without its query
	Verdict  string `json:"verdict"`
	Rule     string `json:"rule,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Sent     int64  `json:"bytes_sent"`
	Received int64  `json:"bytes_received"`
	DurMS    int64  `json:"dur_ms"`
	Secret   string `json:"secret,omitempty"` // name of the secret that was added to the request
	Count    int    `json:"count,omitempty"`  // number of equal events, if it is above 1
}

// Kind is KindEgress.
func (Egress) Kind() Kind { return KindEgress }

func (e Egress) prepared(r *redactor) any {
	e.Host, e.Method = clip(r.text(e.Host), maxName), clip(r.text(e.Method), maxName)
	e.Path, e.Reason = clip(r.text(e.Path), maxText), clip(r.text(e.Reason), maxText)
	return e
}

// PolicyChange says that a policy is in force from now on, or why a policy is not.
type PolicyChange struct {
	Event  string `json:"event"` // read, or refused if the policy before stays in force
	File   string `json:"file"`
	SHA256 string `json:"policy_sha256,omitempty"` // SHA-256 of the policy that is in force
	Before string `json:"before_sha256,omitempty"` // SHA-256 of the policy that was in force until now
	Reason string `json:"reason,omitempty"`
}

// Kind is KindPolicy.
func (PolicyChange) Kind() Kind { return KindPolicy }

func (p PolicyChange) prepared(r *redactor) any {
	p.Reason = clip(r.text(p.Reason), maxText)
	return p
}

// Session says that a session began or ended, or what happened to a job, a box, a browser,
// changes or a place.
type Session struct {
	// Event is start or end. It is ended, job-ended or box-ended for what an operator ends;
	// browser-held or browser-released for a browser that a person stops or lets continue;
	// applied or discarded for a set of changes; place-frozen, place-thawed, place-left,
	// place-taken or place-exported for a place that moves, without a session.
	Event  string `json:"event"`
	Tenant string `json:"tenant"`
	// Principal is the principal of the tenant that the session belongs to; empty over
	// stdio.
	Principal string `json:"principal,omitempty"`
	Session   string `json:"session"`             // name of the session; of the box for box-ended and for a browser
	Workspace string `json:"workspace,omitempty"` // workspace of the session's place, if it is not the server's own
	Place     string `json:"place,omitempty"`     // place of a fleet; empty outside a fleet
	TaskID    int64  `json:"task_id,omitempty"`   // task id of the job that ended with job-ended
	By        string `json:"by,omitempty"`        // the operator, the policy or the token that caused the event
	Reason    string `json:"reason,omitempty"`    // for ended: the reason that the session's client gets
	Client    Client `json:"client,omitzero"`     // client as it was known at that time
}

// Kind is KindSession.
func (Session) Kind() Kind { return KindSession }

func (s Session) prepared(r *redactor) any {
	s.Client = Client{clip(r.text(s.Client.Name), maxName), clip(r.text(s.Client.Version), maxName)}
	s.Reason = clip(r.text(s.Reason), maxText)
	return s
}

// Login says that a token was refused, was made or is no longer valid, or that a person
// logged in at the console.
type Login struct {
	Event     string `json:"event"` // refused, created, revoked, expired or console
	Tenant    string `json:"tenant,omitempty"`
	Principal string `json:"principal,omitempty"` // principal of the token, if it is known
	Reason    string `json:"reason,omitempty"`    // for refused: the reason in one word; for console: the role
	Detail    string `json:"detail,omitempty"`    // the reason in full
	Count     int    `json:"count,omitempty"`     // number of further events since the record before
}

// Kind is KindLogin.
func (Login) Kind() Kind { return KindLogin }

func (l Login) prepared(r *redactor) any {
	l.Principal, l.Detail = clip(r.text(l.Principal), maxName), clip(r.text(l.Detail), maxText)
	return l
}

// Upstream says that an operator decided about pins of an upstream server, restarted the
// server or logged in at it.
type Upstream struct {
	Event    string `json:"event"`              // trusted, refused, imported, forgotten, restarted, stopped or login
	Upstream string `json:"upstream,omitempty"` // name of the server; empty for all servers of the tenant
	Tenant   string `json:"tenant,omitempty"`
	// workspace whose file configures the server, if agents can write the file
	Workspace string   `json:"workspace,omitempty"`
	Items     []string `json:"items,omitempty"` // definitions that the event is about
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
	Command   string `json:"command"` // subcommand, for example serve
	Transport string `json:"transport,omitempty"`
	Workspace string `json:"workspace"`
	Policy    string `json:"policy"`
	SHA256    string `json:"policy_sha256"`
	Level     string `json:"level"` // level of the log
}

// Kind is KindServer.
func (Server) Kind() Kind { return KindServer }

func (s Server) prepared(*redactor) any { return s }

// JobCast says that the recording of a background job has ended.
type JobCast struct {
	CallID   string `json:"call_id"` // id of the call that started the job
	Tenant   string `json:"tenant"`
	Session  string `json:"session"`
	Tool     string `json:"tool"`
	DurMS    int64  `json:"dur_ms"`
	Recorded `json:"cast"`
}

// Kind is KindCast.
func (JobCast) Kind() Kind { return KindCast }

func (j JobCast) prepared(*redactor) any { return j }
