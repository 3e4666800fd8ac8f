package policies

import "time"

// The settings of the audit log that a policy has if it does not state them.
const (
	DefaultAuditFsync  = 200 * time.Millisecond // longest time until a record is on the disk
	DefaultAuditRotate = 64 << 20               // bytes of one file
	DefaultAuditKeep   = 30                     // number of full files that are kept
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

// Audit says how the audit log is kept. With the zero value no log is kept.
type Audit struct {
	Level    AuditLevel
	Required bool          // a call whose decision cannot be written does not run
	Fsync    time.Duration // longest time until a record is on the disk
	Rotate   int64         // bytes after which a new file is begun
	Keep     int           // number of full files that are kept
	Path     string        // directory of the log, absolute; empty for the directory in the program's state
	// PlainSecrets leaves known secrets, and texts that look like secrets, in records.
	// PlainEnv leaves the values of variables that a call sets in records. Without these
	// settings, such texts and values are removed.
	PlainSecrets, PlainEnv bool
	// Emails removes mail addresses from records. Tokens removes texts that look
	// like secrets, even if PlainSecrets leaves the known ones in.
	Emails, Tokens bool
	// OTLP is the URL of a collector that gets a span for each call. It is empty if no
	// collector gets spans, and OTLPStandard if the environment names the collector.
	OTLP string
}

// OTLPStandard is the value of Audit.OTLP if the environment says where spans go, in the
// variables that OpenTelemetry defines.
const OTLPStandard = "environment"

// DefaultAudit returns the audit log of a policy that states only the level.
func DefaultAudit(level AuditLevel) Audit {
	return Audit{Level: level, Fsync: DefaultAuditFsync, Rotate: DefaultAuditRotate, Keep: DefaultAuditKeep}
}

// Audit returns what the policy says about the audit log, and false if it says nothing.
func (p *Policy) Audit() (Audit, bool) { return p.audit, p.audited }

// Kept is how much the audit log keeps of a call.
type Kept struct {
	Said  bool       // a level is stated; if not, the level of the log counts
	Level AuditLevel // meaningless unless Said
}

// wider returns the Kept that keeps more. A Kept without a level stands for logged, the
// level of the log.
func (k Kept) wider(other Kept, logged AuditLevel) Kept {
	switch {
	case !k.Said && !other.Said:
		return Kept{}
	case !k.Said:
		k.Level = logged
	case !other.Said:
		other.Level = logged
	}
	return Kept{true, max(k.Level, other.Level)}
}

// ofRefusal returns what is kept of a call that is not let through: a refusal is always
// recorded.
func (k Kept) ofRefusal() Kept {
	if k.Said {
		k.Level = max(k.Level, AuditMeta)
	}
	return k
}

// below returns what is kept if the layers above say k and a lower layer says other: never
// less than the layers above say. If the layers above say nothing, the level of the log
// counts, and only the level full is sure to keep no less than that.
func (k Kept) below(other Kept) Kept {
	switch {
	case other.Said && k.Said:
		k.Level = max(k.Level, other.Level)
	case other.Said && other.Level == AuditFull:
		return other
	}
	return k
}
