package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// Bounds of a table, and of its names.
const (
	// DefaultBudget is how long a primary name may be, in characters. Models' APIs take 64,
	// and clients put their own prefix before it: mcp__belljar__ has 14.
	DefaultBudget = 50
	minBudget     = 32
	maxBudget     = 128

	maxServers = 1000
	maxTools   = 10_000 // of one server
	maxAll     = 50_000 // tools of all servers
	maxNative  = 1024   // bytes of a name that a server uses
	maxPrefix  = 24     // characters of a prefix; half of the budget is the tool's
	maxFormer  = 4      // names of one tool that have changed
)

// reserved begins every name that says which server is meant. No short name may: a server
// whose tool is named mcp_files_read would get calls that are meant for the server files
// while that one is away.
const reserved = "mcp"

// base is the primary name of a tool before collisions and the budget change it.
func base(prefix, native string) string { return "mcp_" + prefix + "_" + sanitised(native) }

// digits are the numbers of hexadecimal digits that a name may end in, from the first
// attempt to the last.
var digits = [...]int{0, 4, 8, 16, 24}

// cutDigits is the least number of digits of a name that is cut. Names that differ only
// behind the cut are common in generated tools, so 4 digits would collide soon.
const cutDigits = 6

// candidate is the primary name of a tool at an attempt: the base, cut to the budget, with
// digits of the digest where the attempt or the cut demands them.
func candidate(name, server, native string, attempt, budget int) string {
	n := digits[attempt]
	if len(name) > budget {
		n = max(n, cutDigits)
	}
	if n == 0 {
		return name
	}
	return name[:min(len(name), budget-1-n)] + "_" + digest(server, native)[:n]
}

// digest stands for a tool. The length before the server's name keeps the two texts apart.
func digest(server, native string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(server), server, native))
	return hex.EncodeToString(sum[:])
}

// sanitised is a text in the characters that every client and model accepts in names.
func sanitised(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, text)
}

// sanitisedPrefix is the part of a prefix that names contain. It neither begins nor ends with
// _, so no primary name begins with mcp__, which another form of name begins with. It is not
// "mcp", which would read like the beginning of another server's name. It is empty if the
// prefix has no other characters.
func sanitisedPrefix(prefix string) string {
	clean := strings.Trim(sanitised(prefix), "_-")
	switch {
	case strings.EqualFold(clean, reserved):
		return reserved + "-server"
	case len(clean) > maxPrefix:
		sum := sha256.Sum256([]byte(prefix))
		return clean[:maxPrefix-1-cutDigits] + "_" + hex.EncodeToString(sum[:])[:cutDigits]
	}
	return clean
}

// unusable says why a tool of that native name cannot be offered; empty if it can.
func unusable(native string) string {
	switch {
	case native == "":
		return "the tool has no name"
	case len(native) > maxNative:
		return fmt.Sprintf("the name has %d bytes, and %d are accepted", len(native), maxNative)
	case !utf8.ValidString(native):
		return "the name is not UTF-8"
	}
	return ""
}

// aliases are the further names that a tool claims: the two long forms, with the prefix as
// written and as sanitised, the name of the base, and the short name.
func aliases(written, prefix, native string) []string {
	all := []string{base(prefix, native), "mcp__" + prefix + "__" + sanitised(native)}
	if plain(native) {
		all = append(all, "mcp:"+prefix+"."+native, "mcp__"+prefix+"__"+native)
		if written != prefix && plain(written) {
			all = append(all, "mcp:"+written+"."+native, "mcp__"+written+"__"+native)
		}
		if folded := strings.ToLower(native); folded != reserved && !strings.HasPrefix(folded, reserved+"_") && !strings.HasPrefix(folded, reserved+":") {
			all = append(all, native)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// plain reports whether a text shows as what it is: no space, no control character, and
// nothing that hides or turns around what stands beside it.
func plain(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == utf8.RuneError || !printable.InLine(r) })
}
