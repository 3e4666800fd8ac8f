package policies

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

var units = map[string]int64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

var quantity = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(-?[0-9]+)[ ]?([A-Za-z]*)$`) })

// number reads a number, which may have a fraction.
func (d *decoder) number(n *yaml.Node, key, hint string, least, most float64) (float64, bool) {
	value, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case n.Kind == yaml.AliasNode:
	case n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(value):
		d.Fault(n, hint, "%s must be a number, not %s", key, kind(n))
	case value < least || value > most:
		d.Fault(n, "a limit cannot be switched off; remove the key for the default", "%s is %s, outside %v to %v", key, n.Value, least, most)
	default:
		return value, true
	}
	return 0, false
}

// count reads a whole number above zero, or a size.
func (d *decoder) count(n *yaml.Node, key string, most int64, size bool) (int64, bool) {
	hint := "write a whole number, for example 512"
	if size {
		hint = "write a size, for example 512MiB, 2GiB or a number of bytes"
	}
	if n.Kind == yaml.AliasNode {
		return 0, false
	}
	m := quantity().FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil || m[2] != "" && !size {
		d.Fault(n, hint, "%s cannot be %s", key, quoted(n))
		return 0, false
	}
	unit, known := units[m[2]]
	if !known {
		d.Fault(n, suggest(m[2], []string{"KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"}), "%s has the unknown unit %q", key, m[2])
		return 0, false
	}
	value, err := strconv.ParseInt(m[1], 10, 64)
	switch {
	case err == nil && value <= 0:
		d.Fault(n, "a limit cannot be switched off; remove the key for the default", "%s must be above zero", key)
		return 0, false
	case err != nil || value > most/unit:
		d.Fault(n, "", "%s is %s, more than the %d that can be given", key, n.Value, most)
		return 0, false
	}
	return value * unit, true
}

// duration reads a time in Go's spelling.
func (d *decoder) duration(n *yaml.Node, key string) (time.Duration, bool) {
	const most = 30 * 24 * time.Hour
	if n.Kind == yaml.AliasNode {
		return 0, false
	}
	value, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		hint := "write a time with its unit, for example 30s, 10m or 1h30m"
		if _, err := strconv.Atoi(n.Value); err == nil {
			hint = fmt.Sprintf("write its unit: %ss for seconds, %sm for minutes", n.Value, n.Value)
		}
		d.Fault(n, hint, "%s cannot be %s", key, quoted(n))
	case value <= 0:
		d.Fault(n, "a limit cannot be switched off; remove the key for the default", "%s must be above zero", key)
	case value < time.Millisecond || value > most:
		d.Fault(n, "", "%s is %v, outside 1ms to %v", key, value, most)
	default:
		return value, true
	}
	return 0, false
}

var ratePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+) ?/ ?([A-Za-z]+)$`) })

// rate reads a number of calls in a time, for example 30/h.
func (d *decoder) rate(n *yaml.Node, key string) (calls int, per time.Duration, ok bool) {
	if n.Kind == yaml.AliasNode {
		return 0, 0, false
	}
	m := ratePattern().FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil {
		hint := "write a number of calls in a time, for example 10/s, 120/min, 30/h or 500/day"
		if _, err := strconv.Atoi(n.Value); err == nil && n.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("say in what time: %s/s, %s/min or %s/h", n.Value, n.Value, n.Value)
		}
		d.Fault(n, hint, "%s cannot be %s", key, quoted(n))
		return 0, 0, false
	}
	per, known := pers[m[2]]
	if !known {
		d.Fault(n, suggest(m[2], perNames), "%s has the unknown time %q", key, m[2])
		return 0, 0, false
	}
	calls, err := strconv.Atoi(m[1])
	switch {
	case err == nil && calls == 0:
		d.Fault(n, "to let none through, write decision: deny", "%s must be above zero", key)
		return 0, 0, false
	case err != nil || calls > maxCalls:
		d.Fault(n, "", "%s is %s, more than the %d that can be given", key, m[1], maxCalls)
		return 0, 0, false
	}
	return calls, per, true
}

// quoted returns a node's value for a message, or its kind.
func quoted(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return kind(n)
	}
	return strconv.Quote(n.Value)
}

// version checks the version of a policy or a layer.
func (d *decoder) version(root *yaml.Node, o object) {
	switch v := o.get("version"); {
	case v == nil:
		d.Fault(root, "begin the file with version: 1", "the policy has no version")
	case v.Kind != yaml.ScalarNode || v.Value != "1" || v.ShortTag() != "!!int":
		d.Fault(v, "write version: 1", "version must be 1, not %s", quoted(v))
	}
}

// known adds a fault if no profile has the name.
func (d *decoder) known(profiles map[string]profileGrant, n *yaml.Node, name string) {
	if _, ok := profiles[name]; !ok {
		d.Fault(n, suggest(name, names(profiles)), "profile %q does not exist", name)
	}
}

// namePattern is the pattern of the names that IsName accepts.
const namePattern = `^[a-z0-9][a-z0-9._-]{0,63}$`

// nameStart is namePattern without its bound: the compiler would copy the class 64 times.
var nameStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`) })

// NameShape describes the names that IsName accepts.
const NameShape = "use lower-case letters, digits, dots, hyphens and underscores, 64 at most"

// IsName reports whether a text can be the name of a profile, a secret, a tenant or a
// place, or the id of a rule.
func IsName(s string) bool { return len(s) <= 64 && nameStart().MatchString(s) }
