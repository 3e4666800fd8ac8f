package policies

import "time"

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

// DefaultAudit is the audit log of a level with everything else as a policy
// has it that only names the level.
func DefaultAudit(level AuditLevel) Audit {
	return Audit{Level: level, Fsync: DefaultAuditFsync, Rotate: DefaultAuditRotate, Keep: DefaultAuditKeep}
}

// Audit is what the policy says about the audit log; false says that it says
// nothing.
func (p *Policy) Audit() (Audit, bool) { return p.audit, p.audited }

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

// below is what is kept where a lower layer says other: never less than the layers
// above say. Only the level full is sure to keep more than the log keeps of any
// call.
func (k Kept) below(other Kept) Kept {
	switch {
	case other.Said && k.Said:
		k.Level = max(k.Level, other.Level)
	case other.Said && other.Level == AuditFull:
		return other
	}
	return k
}
