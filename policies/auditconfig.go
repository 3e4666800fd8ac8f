package policies

import (
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
	AuditMeta                      // who called what, and what became of it
	AuditRequest                   // the arguments besides
	AuditFull                      // the text of the result besides
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
	// PlainSecrets and PlainEnv leave in records what is otherwise taken out of
	// them: known secrets and what looks like one, and the values of variables
	// that a call sets.
	PlainSecrets, PlainEnv bool
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
	o, ok := d.mapping(n, "audit", "level", "required", "fsync", "rotate", "keep", "redact", "path")
	if !ok {
		return a
	}
	if v := o.get("level"); v != nil {
		a.Level = AuditLevel(max(0, d.word(v, "level", auditLevels...)))
	}
	if v := o.get("required"); v != nil {
		a.Required = d.truth(v, "required")
		if a.Required && a.Level == AuditNone {
			d.fault(v, "choose another level, or drop required", "an audit log of the level none cannot be required")
		}
	}
	if v := o.get("fsync"); v != nil {
		if value, ok := d.duration(v, "fsync"); ok {
			a.Fsync = value
			if value > time.Minute {
				d.fault(v, "write a time up to 1m", "fsync is %v: a power failure would lose too much", value)
			}
		}
	}
	if v := o.get("rotate"); v != nil {
		if value, ok := d.count(v, "rotate", 1<<40, true); ok {
			a.Rotate = value
			if value < 64<<10 {
				d.fault(v, "write at least 64KiB", "rotate is %d bytes, less than a file can have", value)
			}
		}
	}
	if v := o.get("keep"); v != nil {
		if value, ok := d.count(v, "keep", 10_000, false); ok {
			a.Keep = int(value)
		}
	}
	if v := o.get("redact"); v != nil {
		a.PlainSecrets, a.PlainEnv = d.redact(v)
	}
	if v := o.get("path"); v != nil {
		if text, ok := d.text(v, "path"); ok {
			if !path.IsAbs(text) || path.Clean(text) != text || text == "/" || control(text) {
				d.fault(v, "write an absolute directory of the host in its shortest form", "path %s cannot hold the audit log", shown(text))
			}
			a.Path = text
		}
	}
	return a
}

// redact reads what is taken out of records, and says what is left in.
func (d *decoder) redact(n *yaml.Node) (secrets, env bool) {
	secrets, env = true, true
	words, none := 0, false
	d.texts(n, "redact", func(n *yaml.Node, _ string) {
		words++
		switch d.word(n, "redact", "secrets", "env", "none") {
		case 0:
			secrets = false
		case 1:
			env = false
		case 2:
			none = true
		}
	})
	if none && words > 1 {
		d.fault(n, "write redact: none, or the others without it", "redact names none and something else")
	}
	return secrets, env
}
