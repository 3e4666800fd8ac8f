package debt

// Kind is the kind of work that is left to do.
type Kind string

// The kinds, after Maldonado and Shihab, 2015, with two more.
const (
	Design      Kind = "design"      // structure: workarounds, duplication, code that belongs elsewhere
	Defect      Kind = "defect"      // something is known to be wrong
	Requirement Kind = "requirement" // something is missing, or a question is open
	Test        Kind = "test"        // tests are missing or in a bad state
	Performance Kind = "performance" // something costs more than necessary
	Security    Kind = "security"    // something can be attacked
)

// Severity says how bad the debt is, as the author's words show.
type Severity string

// The severities.
const (
	Low      Severity = "low"      // a wish or a question
	Medium   Severity = "medium"   // a marker without other signs
	High     Severity = "high"     // a word that says that something is wrong, or the marker FIXME or BUG
	Critical Severity = "critical" // security, lost data, crashes
)

// classify returns the kind and the severity of a remark by its marker (empty for a
// phrase), its words, and whether it is a question. Most questions are about a missing
// feature.
func classify(marker string, words []word, question bool) (Kind, Severity) {
	var counts [6]int // in the order of the switch below
	wish, wrong, critical := false, false, false
	for i, w := range words {
		switch about(w.lower) {
		case Security:
			counts[0]++
		case Test:
			counts[1]++
		case Performance:
			counts[2]++
		case Defect:
			counts[3]++
		case Requirement:
			counts[4]++
		case Design:
			counts[5]++
		}
		switch w.lower {
		case "maybe", "perhaps", "consider", "could", "nice", "someday", "possibly", "might", "wonder", "hmm":
			wish = true
		case "should", "would", "is", "can":
			wish = wish || i+1 < len(words) && (words[i+1].lower == "we" || words[i+1].lower == "this" && i == 0)
		case "broken", "wrong", "incorrect", "incorrectly", "bug", "bugs", "racy", "leak", "leaks", "fail", "fails", "breaks", "doesn't", "seriously", "urgent", "must":
			wrong = true
		case "crash", "crashes", "panics", "corrupt", "corrupts", "corruption", "deadlock", "overflow", "vulnerable", "vulnerability", "insecure", "exploit", "attacker":
			critical = true
		}
	}
	kind := Design
	switch {
	case counts[0] > 0:
		kind = Security
	case marker == "BUG" || marker == "BUGS":
		kind = Defect
	case counts[1] > 0:
		kind = Test
	case counts[2] > 0:
		kind = Performance
	case counts[3] > 0:
		kind = Defect
	case question && counts[4] >= counts[5], counts[4] > counts[5], counts[5] == 0 && marker == "TODO":
		kind = Requirement
	}
	switch {
	case critical || kind == Security:
		return kind, Critical
	case wrong || marker == "FIXME" || marker == "BUG" || marker == "BUGS":
		return kind, High
	case wish:
		return kind, Low
	}
	return kind, Medium
}

// about returns the kind that a word belongs to, or an empty Kind.
func about(lower string) Kind {
	switch lower {
	case "security", "insecure", "insecurely", "vulnerable", "vulnerability", "vulnerabilities", "exploit", "exploitable", "attacker", "attack", "attacks", "injection", "xss", "csrf", "spoof", "spoofing", "sanitize", "sanitized", "plaintext", "untrusted":
		return Security
	case "test", "tests", "tested", "untested", "testing", "testcase", "testdata", "unittest", "coverage", "flaky", "flake":
		return Test
	case "slow", "slower", "slowly", "fast", "faster", "speed", "performance", "optimize", "optimise", "optimized", "optimization", "efficient", "inefficient", "efficiently", "efficiency", "allocation", "allocations", "alloc", "allocs", "expensive", "quadratic", "compact", "memory", "wasteful", "cheaper":
		return Performance
	case "bug", "bugs", "buggy", "broken", "wrong", "wrongly", "incorrect", "incorrectly", "crash", "crashes", "race", "races", "racy", "leak", "leaks", "fail", "fails", "failing", "failures", "fix", "fixed", "break", "breaks", "corrupt", "corrupts", "clobber", "deadlock", "misbehaves", "adhere":
		return Defect
	case "support", "supported", "supports", "implement", "implemented", "unimplemented", "implementing", "implementation", "add", "added", "allow", "allowed", "handle", "handled", "handles", "handling", "missing", "need", "needs", "needed", "check", "checks", "checking", "validate", "verify", "yet", "raise", "error", "errors", "what", "enable", "figure", "update", "include", "report", "accept", "reject", "emit", "extend", "sufficient", "encoding", "options", "recognize", "recovery", "catch", "missed", "save", "sort", "generate", "incomplete", "unsupported", "register":
		return Requirement
	case "hack", "hacky", "kludge", "ugly", "workaround", "refactor", "rewrite", "rewritten", "clean", "cleanup", "cleaner", "move", "moved", "remove", "removed", "removing", "replace", "merge", "unify", "split", "duplicate", "duplicated", "duplication", "overlap", "simplify", "simpler", "better", "rename", "redesign", "redesigned", "factor", "share", "shared", "eliminate", "eliminated", "deprecated", "delete", "api", "interface", "abstraction", "instead", "temporary", "temporarily", "compatibility", "type", "method", "function", "design", "consider", "really":
		return Design
	}
	return ""
}
