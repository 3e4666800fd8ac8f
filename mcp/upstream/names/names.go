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
	// DefaultBudget is the largest length of a primary name, in characters. The APIs of
	// models accept 64, and clients put their own prefix before the name: mcp__belljar__
	// has 14.
	DefaultBudget = 50
	minBudget     = 32
	maxBudget     = 128

	maxServers = 1000
	maxTools   = 10_000 // tools of one server
	maxAll     = 50_000 // tools of all servers
	maxNative  = 1024   // bytes of a name that a server uses
	maxPrefix  = 24     // characters of a prefix; half of the budget remains for the tool's name
	maxFormer  = 4      // former names of one tool
)

// reserved is the beginning of every name that includes its server. No short name may begin
// with it: a server with a tool named mcp_files_read would get calls for the server files
// while that server is away.
const reserved = "mcp"

// base returns the primary name of a tool, before collisions and the budget change it.
func base(prefix, native string) string { return "mcp_" + prefix + "_" + sanitised(native) }

// digits contains, for each attempt, the number of hexadecimal digits at the end of a name.
var digits = [...]int{0, 4, 8, 16, 24}

// cutDigits is the least number of digits at the end of a name that is cut. Generated tools
// often have names that differ only after the cut, so 4 digits would soon collide.
const cutDigits = 6

// candidate returns the primary name of a tool at an attempt: the base, cut to the budget,
// with digits of the digest if the attempt or the cut requires them.
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

// digest returns the digest of a tool. The length before the server's name separates the
// two texts unambiguously.
func digest(server, native string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(server), server, native))
	return hex.EncodeToString(sum[:])
}

// sanitised replaces each character that not every client and model accepts in names by _.
func sanitised(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, text)
}

// sanitisedPrefix returns a prefix in the form that names contain. It neither begins nor
// ends with _, so no primary name begins with mcp__, the beginning of another form of name.
// It is not "mcp", which would look like the beginning of another server's name. It is
// empty if no character of the prefix can be used.
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

// unusable returns why a tool with a native name cannot be offered; empty if it can.
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

// aliases returns the further names that a tool claims: the two long forms, with the prefix
// as written and as sanitised, the base, and the short name.
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

// plain reports whether a text looks like what it is: it has no space, no control
// character, and no character that hides or reverses the text next to it.
func plain(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == utf8.RuneError || !printable.InLine(r) })
}
