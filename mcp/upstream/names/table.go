package names

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"belljar.dev/internal/order"
)

// The errors for a name that does not lead to exactly one tool. The third is an
// *AmbiguousError.
var (
	ErrUnknown = errors.New("no such tool")
	ErrOwn     = errors.New("one of belljar's own tools has this name")
)

// AmbiguousError is the error for a name that several tools claim.
type AmbiguousError struct {
	Name       string
	Candidates []string // primary names of the tools, sorted
}

// Error lists the primary names of the tools, so that the caller can choose one.
func (e *AmbiguousError) Error() string {
	const shown = 8
	names, more := e.Candidates, ""
	if len(names) > shown {
		names, more = names[:shown], fmt.Sprintf(" (and %d more)", len(e.Candidates)-shown)
	}
	return fmt.Sprintf("%q is a tool of several servers, and nothing was called; use one of these names: %s%s", e.Name, strings.Join(names, ", "), more)
}

// Server is a server with the names that it uses.
type Server struct {
	Name   string   // name of its entry; servers with the same name are all left out
	Prefix string   // prefix of the names of its tools; empty stands for Name
	Tools  []string // native names, in any order
	Filter Filter
}

// Config contains what a table is built from.
type Config struct {
	Own     []string // names of belljar's own tools
	Servers []Server // servers in any order
	Former  []Former // former names from the previous table, so that names which clients know stay valid
	Budget  int      // most characters of a primary name, 32 to 128; 0 is DefaultBudget
}

// Former is a primary name that a tool has or had.
type Former struct {
	Name   string
	Server string
	Native string
}

// Tool is a tool in a table.
type Tool struct {
	Primary string   // name in lists, in policies and in the audit log
	Server  string   // name of its server's entry
	Native  string   // name that its server uses, byte for byte
	Aliases []string // further names that lead to this tool alone, sorted
	// Shared are names that this tool lost because other tools claim them, sorted. They do
	// not lead to this tool. A rule that was written for such a name must still apply to
	// the tool.
	Shared []string
}

// Notice reports to the operator what a table leaves out or changes.
type Notice struct {
	Server string
	Tool   string // native name; empty if the notice is about the server
	Text   string
}

// Table contains the names of all tools at one time. It does not change, so its methods are
// safe for concurrent use.
type Table struct {
	tools   []Tool
	at      map[string][]int // indexes in tools of the tools that claim a name, by name
	own     map[string]struct{}
	folded  map[string]struct{} // names of own in lower case
	away    map[string]string   // servers by the names of their tools that are away
	former  []Former
	notices []Notice
}

// entry is a tool in a table that is being built.
type entry struct {
	server, native string
	written        string // prefix in the spelling of the server's entry
	prefix         string // prefix in the form that names contain
	base           string
	attempt        int // index in digits
	primary        string
}

// left returns the primary names that a tool had to give up while the table was built.
func (e *entry) left(budget int) (all []string) {
	for attempt := range e.attempt {
		all = append(all, candidate(e.base, e.server, e.native, attempt, budget))
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == e.primary })
}

// Build returns the table of a configuration. A server or a tool that cannot be offered is
// left out; Notices reports it. Build fails if the budget is out of bounds.
func Build(cfg Config) (*Table, error) {
	budget := cmp.Or(cfg.Budget, DefaultBudget)
	if budget < minBudget || budget > maxBudget {
		return nil, fmt.Errorf("names of tools: the budget is %d characters, want %d to %d", budget, minBudget, maxBudget)
	}
	t := &Table{at: make(map[string][]int), own: make(map[string]struct{}), folded: make(map[string]struct{})}
	for _, name := range cfg.Own {
		t.own[name] = struct{}{}
		t.folded[strings.ToLower(name)] = struct{}{}
	}
	entries := t.entries(cfg.Servers)
	t.away = away(cfg.Servers, cfg.Former, entries)
	entries = t.choose(entries, budget)
	claims := t.claims(entries, cfg.Former)
	for i, e := range entries {
		tool := Tool{Primary: e.primary, Server: e.server, Native: e.native, Shared: e.left(budget)}
		for _, name := range claims[i] {
			switch {
			case name == e.primary:
			case len(t.at[name]) == 1:
				tool.Aliases = append(tool.Aliases, name)
			default:
				tool.Shared = append(tool.Shared, name)
			}
		}
		slices.Sort(tool.Shared)
		tool.Shared = slices.DeleteFunc(slices.Compact(tool.Shared), func(name string) bool { return slices.Contains(tool.Aliases, name) })
		t.tools = append(t.tools, tool)
	}
	order.By(t.notices, func(a, b *Notice) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Text, b.Text))
	})
	return t, nil
}

// notice records that something is left out or changed.
func (t *Table) notice(server, tool, format string, args ...any) {
	t.notices = append(t.notices, Notice{server, tool, fmt.Sprintf(format, args...)})
}

// away returns the names, including their server, of tools that configured servers had and
// do not have now, for example because they do not run. Each name is mapped to its server,
// or to "" if several servers had it. Such a name stays reserved: otherwise another server
// could take it over, and get the calls of clients that know the name.
func away(servers []Server, former []Former, now []entry) map[string]string {
	prefixes := make(map[string]string, len(servers))
	for _, s := range servers {
		prefixes[s.Name] = cmp.Or(s.Prefix, s.Name)
	}
	there := make(map[Former]struct{}, len(now))
	for _, e := range now {
		there[Former{Server: e.server, Native: e.native}] = struct{}{}
	}
	names := make(map[string]string)
	for _, f := range former {
		written, configured := prefixes[f.Server]
		if _, has := there[Former{Server: f.Server, Native: f.Native}]; has || !configured {
			continue
		}
		for _, name := range append(aliases(written, sanitisedPrefix(written), f.Native), f.Name) {
			if !strings.HasPrefix(name, reserved) {
				continue // a short name does not include its server
			}
			if server, taken := names[name]; taken && server != f.Server {
				names[name] = ""
			} else {
				names[name] = f.Server
			}
		}
	}
	return names
}

// entries returns the tools that may be offered, sorted by server and native name.
func (t *Table) entries(servers []Server) (all []entry) {
	servers = slices.Clone(servers)
	order.By(servers, func(a, b *Server) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range servers {
		switch {
		case i > 0 && servers[i-1].Name == s.Name || i+1 < len(servers) && servers[i+1].Name == s.Name:
			t.notice(s.Name, "", "several servers have this name, and none of them is offered; give each server a different name")
			continue
		case i >= maxServers:
			t.notice(s.Name, "", "there are %d servers, and only the first %d by name are offered", len(servers), maxServers)
			continue
		}
		written := cmp.Or(s.Prefix, s.Name)
		prefix := sanitisedPrefix(written)
		if prefix == "" {
			t.notice(s.Name, "", "the prefix %q has no letter from a to z and no digit, so no tool is offered; set another prefix", written)
			continue
		}
		if prefix != written {
			t.notice(s.Name, "", "the prefix %q is written %q in names of tools", written, prefix)
		}
		all = append(all, t.ofServer(s, written, prefix)...)
	}
	if len(all) > maxAll {
		for _, e := range all[maxAll:] {
			t.notice(e.server, e.native, "there are %d tools, and only the first %d by server and name are offered", len(all), maxAll)
		}
		all = all[:maxAll]
	}
	return all
}

// ofServer returns the tools of one server that may be offered.
func (t *Table) ofServer(s Server, written, prefix string) (all []entry) {
	tools := slices.Sorted(slices.Values(s.Tools))
	if len(tools) > maxTools {
		t.notice(s.Name, "", "the server has %d tools, and only the first %d by name are offered", len(tools), maxTools)
		tools = tools[:maxTools]
	}
	for i, native := range tools {
		switch why := unusable(native); {
		case i > 0 && tools[i-1] == native:
			t.notice(s.Name, native, "the server has several tools of this name, and none of them is offered")
			if n := len(all); n > 0 && all[n-1].native == native {
				all = all[:n-1]
			}
		case why != "":
			t.notice(s.Name, native, "the tool is not offered: %s", why)
		case s.Filter.Passes(native):
			all = append(all, entry{server: s.Name, native: native, written: written, prefix: prefix, base: base(prefix, native)})
		}
	}
	return all
}

// choose gives each tool a primary name that no other tool claims. All tools that want the
// same name get more digits in the same attempt, so the result does not depend on their
// order. A base name counts as claimed even if its tool had to give it up: otherwise it
// could become the name of a third tool that is named like a digest.
func (t *Table) choose(all []entry, budget int) []entry {
	for {
		bases := make(map[string]int, len(all))
		wanted := make(map[string]int, len(all))
		for i := range all {
			e := &all[i]
			e.primary = candidate(e.base, e.server, e.native, e.attempt, budget)
			bases[e.base]++
			wanted[e.primary]++
		}
		var again, lost bool
		for i := range all {
			e := &all[i]
			others := bases[e.primary]
			if e.base == e.primary {
				others--
			}
			if wanted[e.primary] == 1 && others == 0 && !t.isOwn(e.primary) && !t.isAway(e.primary, e.server) {
				continue
			}
			if e.attempt++; e.attempt == len(digits) {
				t.notice(e.server, e.native, "the tool is not offered: all its possible names are in use")
				lost = true
			}
			again = true
		}
		if lost {
			all = slices.DeleteFunc(all, func(e entry) bool { return e.attempt == len(digits) })
		}
		if !again {
			return all
		}
	}
}

// claims fills the index of names, and returns the further names that each tool claims.
func (t *Table) claims(all []entry, former []Former) [][]string {
	claims := make([][]string, len(all))
	where := make(map[Former]int, len(all)) // indexes of the tools; Former.Name is empty in the keys
	for i, e := range all {
		claims[i] = aliases(e.written, e.prefix, e.native)
		where[Former{Server: e.server, Native: e.native}] = i
	}
	t.former = remembered(former, all)
	for _, f := range t.former {
		if i, there := where[Former{Server: f.Server, Native: f.Native}]; there {
			claims[i] = append(claims[i], f.Name)
		}
	}
	for i, e := range all {
		t.at[e.primary] = []int{i}
	}
	for i, e := range all {
		claims[i] = slices.DeleteFunc(claims[i], func(name string) bool {
			at := t.at[name]
			// the name leads to that tool
			return t.isOwn(name) || t.isAway(name, all[i].server) || len(at) == 1 && all[at[0]].primary == name && at[0] != i
		})
		slices.Sort(claims[i])
		claims[i] = slices.Compact(claims[i])
		for _, name := range claims[i] {
			if name != e.primary {
				t.at[name] = append(t.at[name], i)
			}
		}
	}
	return claims
}

// remembered returns the primary names that tools had and those that they have now, the
// newest last. A tool that is away keeps its names, within bounds.
func remembered(before []Former, now []entry) []Former {
	all := make([]Former, 0, len(before)+len(now))
	seen := make(map[Former]struct{}, len(before)+len(now))
	count := make(map[Former]int, len(now))
	add := func(f Former) {
		if _, twice := seen[f]; twice || !strings.HasPrefix(f.Name, "mcp_") || f.Name != sanitised(f.Name) || len(all) >= maxAll*2 {
			return
		}
		tool := Former{Server: f.Server, Native: f.Native}
		if count[tool]++; count[tool] > maxFormer {
			return
		}
		seen[f] = struct{}{}
		all = append(all, f)
	}
	for _, e := range now {
		add(Former{e.primary, e.server, e.native})
	}
	for _, f := range slices.Backward(before) {
		add(f)
	}
	slices.Reverse(all)
	return all
}

func (t *Table) isOwn(name string) bool {
	_, own := t.folded[strings.ToLower(name)]
	return own
}

// isAway reports whether a name is reserved for a tool of another server that is away.
func (t *Table) isAway(name, server string) bool {
	owner, there := t.away[name]
	return there && owner != server
}

// Find returns the tool that a name leads to. The error is ErrUnknown, ErrOwn or an
// *AmbiguousError.
func (t *Table) Find(name string) (Tool, error) {
	if _, own := t.own[name]; own {
		return Tool{}, ErrOwn
	}
	switch at := t.at[name]; len(at) {
	case 0:
		return Tool{}, ErrUnknown
	case 1:
		return t.tools[at[0]], nil
	default:
		candidates := make(map[string]struct{}, len(at))
		for _, i := range at {
			candidates[t.tools[i].Primary] = struct{}{}
		}
		return Tool{}, &AmbiguousError{Name: name, Candidates: slices.Sorted(maps.Keys(candidates))}
	}
}

// List returns all tools, sorted by primary name. The caller may keep and change it, but not
// the Aliases of its tools.
func (t *Table) List() []Tool {
	all := slices.Clone(t.tools)
	order.By(all, func(a, b *Tool) int { return strings.Compare(a.Primary, b.Primary) })
	return all
}

// Former returns the primary names to pass to the next table, and to keep over a restart.
func (t *Table) Former() []Former { return slices.Clone(t.former) }

// Notices returns what the table leaves out or changes, sorted by server and tool.
func (t *Table) Notices() []Notice { return slices.Clone(t.notices) }
