package policies

import (
	"net/url"
	"path"
	"time"

	"go.yaml.in/yaml/v3"
)

// The audit log of a policy that does not say otherwise.
const (
	DefaultAuditFsync  = 200 * time.Millisecond // longest time until a record is on the disk
	DefaultAuditRotate = 64 << 20               // bytes of one file
	DefaultAuditKeep   = 30                     // full files, besides the one that is written
)

// AuditLevel says how much of a call the audit log keeps. The zero value is
// nothing.
type AuditLevel int

// The levels, from nothing up.
const (
	AuditNone    AuditLevel = iota // no log is written
	AuditMeta                      // the caller, the tool and the outcome of each call
	AuditRequest                   // the arguments too
	AuditFull                      // the text of the result too
)

var auditLevels = []string{"none", "meta", "request", "full"}

// String is the level as policies and records spell it.
func (l AuditLevel) String() string {
	if l < 0 || int(l) >= len(auditLevels) {
		return auditLevels[AuditNone]
	}
	return auditLevels[l]
}

// Audit says how the audit log is kept. The zero value keeps none.
type Audit struct {
	Level    AuditLevel
	Required bool          // a call whose decision cannot be written does not run
	Fsync    time.Duration // longest time until a record is on the disk
	Rotate   int64         // bytes after which a new file is begun
	Keep     int           // full files that are kept
	Path     string        // directory, absolute; empty for the one of the program's state
	// PlainSecrets leaves known secrets, and texts that look like secrets, in
	// records. PlainEnv leaves the values of variables that a call sets in records.
	// Without them these are removed.
	PlainSecrets, PlainEnv bool
	// Emails removes mail addresses from records. Tokens removes texts that look
	// like secrets, even if PlainSecrets leaves the known ones in.
	Emails, Tokens bool
	// OTLP is the URL of a collector that gets a span for each call; empty for
	// none, OTLPStandard for what the environment says.
	OTLP string
}

// OTLPStandard is Audit.OTLP where the environment says where to send spans, as
// OpenTelemetry defines its variables.
const OTLPStandard = "environment"

// Kept is how much the audit log keeps of a call.
type Kept struct {
	Said  bool       // false for as much as the log keeps of any
	Level AuditLevel // meaningless unless Said
}

// wider returns the Kept that keeps more. A Kept that says nothing stands for the
// level of the log, which is not known here: then the result says nothing too.
func (k Kept) wider(other Kept) Kept {
	if !k.Said || !other.Said {
		return Kept{}
	}
	return Kept{true, max(k.Level, other.Level)}
}

// below is what is kept where a lower layer says other: never less than the
// layers above say. What the log keeps of any call only full is sure to exceed.
func (k Kept) below(other Kept) Kept {
	switch {
	case other.Said && k.Said:
		k.Level = max(k.Level, other.Level)
	case other.Said && other.Level == AuditFull:
		return other
	}
	return k
}

// keeping finds how much is kept of a call: of each part what the rules that
// speak about it say, the most of several, and of all parts together the most.
type keeping struct {
	p     *Policy
	begun bool
	kept  Kept
}

// add takes in a part and the rules with terms that speak about it.
func (k *keeping) add(rules []*rule) {
	var of Kept
	for _, r := range rules {
		if said := r.terms.audit; said.Said {
			of = Kept{true, max(of.Level, said.Level)}
		}
	}
	switch {
	case !k.begun:
		k.kept = of
	case k.kept.Said != of.Said:
		// What the log keeps of any call counts like what a rule says.
		k.kept = Kept{true, max(k.kept.Level, of.Level, k.p.logLevel())}
	default:
		k.kept.Level = max(k.kept.Level, of.Level)
	}
	k.begun = true
}

// of returns how much is kept of the call. A refusal or a question is always
// recorded.
func (k *keeping) of(v Verdict) Kept {
	if k.kept.Said && v != Allow {
		k.kept.Level = max(k.kept.Level, AuditMeta)
	}
	return k.kept
}

// logLevel is what the log keeps of a call about which no rule says more.
func (p *Policy) logLevel() AuditLevel {
	if p.audited {
		return p.audit.Level
	}
	return AuditRequest
}

// kept reads how much is kept of the calls of a rule.
func (d *decoder) kept(n *yaml.Node, r *rule, decided bool) Kept {
	word := d.word(n, "audit", auditLevels...)
	k := Kept{Said: true, Level: AuditLevel(max(0, word))}
	if word == int(AuditNone) && decided && r.verdict != Allow {
		d.Fault(n, "write audit: meta, which keeps no arguments", "what is refused or asked about is always written down")
	}
	return k
}

// DefaultAudit is the audit log of a level with everything else as a policy
// has it that only names the level.
func DefaultAudit(level AuditLevel) Audit {
	return Audit{Level: level, Fsync: DefaultAuditFsync, Rotate: DefaultAuditRotate, Keep: DefaultAuditKeep}
}

// Audit is what the policy says about the audit log; false says that it says
// nothing.
func (p *Policy) Audit() (Audit, bool) { return p.audit, p.audited }

// audit reads how the log is kept.
func (d *decoder) audit(n *yaml.Node) Audit {
	a := DefaultAudit(AuditRequest)
	o, ok := d.mapping(n, "audit", auditShape)
	if !ok {
		return a
	}
	if v := o.get("level"); v != nil {
		a.Level = AuditLevel(max(0, d.word(v, "level", auditLevels...)))
	}
	if v := o.get("required"); v != nil {
		a.Required = d.truth(v, "required")
		if a.Required && a.Level == AuditNone {
			d.Fault(v, "choose another level, or drop required", "an audit log of the level none cannot be required")
		}
	}
	if v := o.get("fsync"); v != nil {
		if value, ok := d.duration(v, "fsync"); ok {
			a.Fsync = value
			if value > time.Minute {
				d.Fault(v, "write a time up to 1m", "fsync is %v: a power failure would lose too much", value)
			}
		}
	}
	if v := o.get("rotate"); v != nil {
		if value, ok := d.count(v, "rotate", 1<<40, true); ok {
			a.Rotate = value
			if value < 64<<10 {
				d.Fault(v, "write at least 64KiB", "rotate is %d bytes, less than a file can have", value)
			}
		}
	}
	if v := o.get("keep"); v != nil {
		if value, ok := d.count(v, "keep", 10_000, false); ok {
			a.Keep = int(value)
		}
	}
	if v := o.get("redact"); v != nil {
		d.redact(v, &a)
	}
	if v := o.get("otlp"); v != nil {
		a.OTLP = d.otlp(v)
	}
	if v := o.get("path"); v != nil {
		if text, ok := d.text(v, "path"); ok {
			if !path.IsAbs(text) || path.Clean(text) != text || text == "/" || control(text) {
				d.Fault(v, "write an absolute directory of the host in its shortest form", "path %s cannot hold the audit log", shown(text))
			}
			a.Path = text
		}
	}
	return a
}

// redact reads what is taken out of records.
func (d *decoder) redact(n *yaml.Node, a *Audit) {
	a.PlainSecrets, a.PlainEnv = true, true
	words, none := 0, false
	d.texts(n, "redact", func(n *yaml.Node, _ string) {
		words++
		switch d.word(n, "redact", "secrets", "env", "emails", "tokens", "none") {
		case 0:
			a.PlainSecrets = false
		case 1:
			a.PlainEnv = false
		case 2:
			a.Emails = true
		case 3:
			a.Tokens = true
		case 4:
			none = true
		}
	})
	if none && words > 1 {
		d.Fault(n, "write redact: none, or the others without it", "redact names none and something else")
	}
}

// otlp reads where spans go: a collector's URL, or true for what the
// environment says.
func (d *decoder) otlp(n *yaml.Node) string {
	const hint = "write the URL of a collector, for example http://127.0.0.1:4318, or true for what the environment says"
	if n.Kind != yaml.ScalarNode {
		d.Fault(n, hint, "otlp cannot be %s", kind(n))
		return ""
	}
	if n.ShortTag() == "!!bool" {
		if d.truth(n, "otlp") {
			return OTLPStandard
		}
		return ""
	}
	u, err := url.Parse(n.Value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || control(n.Value) {
		d.Fault(n, hint, "otlp cannot be %s", quoted(n))
		return ""
	}
	return n.Value
}
