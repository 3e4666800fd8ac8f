package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// The tools of upstreams, which are MCP servers of other people, may appear and disappear
// while the server runs. A call of such a tool passes the same gate as any other call: for
// callGate it is a tool like the others, except for what only an upstream adds
// (upstream.bind).
//
// The definitions and results of an upstream are passed on unchanged, with three
// exceptions. The name is the one that this server gives. A definition that clients cannot
// read is refused, and only this one, because common clients drop a whole list for one
// wrong entry. And keys of a _meta that belong only to one hop are left out (see readMeta
// in rawresult.go).
//
// Arguments are not checked against the upstream's schema:
// docs/decisions/2026-11-23-arguments-of-upstreams.md explains why.

// Remote is a tool of an upstream.
type Remote struct {
	// Name is the name that lists show, and that policies, people and logs see. It has the
	// form of a Tool's name.
	Name string
	// Aliases are other names with which clients may call the tool; no list shows them. An
	// alias of several tools calls none of them, and an alias that is the name of another
	// tool calls that tool. The first aliasMost aliases are kept, but none longer than
	// aliasBytes.
	Aliases []string
	// Names are further names of the tool with which it cannot be called, for example a
	// name that several tools would have. Rules that deny or ask see the tool under all its
	// Names and Aliases, so that an upstream cannot escape a rule by renaming its tools. A
	// tool with more than namesMost Names and Aliases, or with one longer than nameBytes,
	// is refused.
	Names []string
	// Definition is the tool as the upstream lists it, a JSON object.
	Definition json.RawMessage
	// Facts returns what a call with the arguments touches. It may be called at the same
	// time. If it is nil, the policies.WebURLs of every text are the URLs of the call.
	Facts func(args map[string]any) policies.Facts
	// Run makes a call of the upstream's tool. It has the duties of a Handler. args is the
	// object of the arguments as the client wrote it. [RawResult] reads the result that an
	// upstream answers; a *RemoteError is an error that an upstream answers.
	Run func(ctx context.Context, call Call, args json.RawMessage) (*Result, error)
}

// Remotes are the tools of one upstream, for the sessions of one tenant.
type Remotes struct {
	Tenant string // tenant whose sessions have the tools; empty means Config.Tenant
	Tools  []Remote
	// Search, if it is not empty, is the name of a tool that finds the other tools. Then no
	// list shows the other tools.
	Search string
	// Note is a text for clients in the _meta of their list of tools, for example that
	// tools are left out until a person has agreed to them. It is cut to noteMost bytes.
	Note string
	// Fresh is how long clients may keep the lists that contain a part of the upstream, if
	// it is shorter than the server's own time for lists. Zero means the server's own time;
	// a negative value means that clients may not keep them.
	Fresh time.Duration
	Limit policies.RateLimit // limit for the calls of all these tools together; Rule and Source are ignored
	// Unguarded allows calls that would need a person's approval, and runs no hooks. A call
	// that the policy denies is still denied, and the audit log records for each call that
	// the upstream is unguarded.
	Unguarded bool
}

// Limits of what one upstream offers.
const (
	remoteMost     = 1000      // tools
	definitionMost = 256 << 10 // bytes of one definition
	listingMost    = 4 << 20   // bytes of all definitions
	definitionDeep = 128       // nesting of a definition, and of a result
	aliasMost      = 8         // aliases of one tool
	aliasBytes     = 256       // bytes of an alias
	namesMost      = 64        // names of one tool that rules see
	nameBytes      = 4096      // bytes of such a name
	noteMost       = 2000      // bytes of a note
)

// upstream is what all tools of an upstream have in common. It never changes.
type upstream struct {
	name      string
	note      string
	fresh     time.Duration
	limit     policies.RateLimit
	unguarded bool
	tools     []*tool // sorted by name
}

// newUpstream checks what an upstream offers. For each tool that it leaves out, it returns
// the reason.
func newUpstream(name string, r Remotes) (u *upstream, refused []error) {
	u = &upstream{name: name, note: clip(r.Note, noteMost), fresh: r.Fresh, limit: r.Limit, unguarded: r.Unguarded}
	u.limit.Rule, u.limit.Source = "upstream:"+name, policies.Source{}
	refuse := func(tool string, err error) {
		refused = append(refused, fmt.Errorf("offer tool %.80q of upstream %s: %w", tool, name, err))
	}
	size := 0
	for i, of := range r.Tools {
		if i == remoteMost {
			refused = append(refused, fmt.Errorf("offer the tools of upstream %s: it has %d, and only the first %d are offered", name, len(r.Tools), remoteMost))
			break
		}
		t, err := u.tool(of)
		switch {
		case err != nil:
			refuse(of.Name, err)
			continue
		case slices.ContainsFunc(u.tools, func(o *tool) bool { return o.info.Name == t.info.Name }):
			refuse(of.Name, errors.New("another tool of the upstream has this name"))
			continue
		case size+len(of.Definition) > listingMost:
			refuse(of.Name, fmt.Errorf("the definitions have more than %d bytes together", listingMost))
			continue
		}
		size += len(of.Definition)
		t.unlisted = r.Search != ""
		u.tools = append(u.tools, t)
	}
	u.sort()
	return u, refused
}

func (u *upstream) sort() {
	slices.SortFunc(u.tools, func(a, b *tool) int { return strings.Compare(a.info.Name, b.info.Name) })
}

// tool returns a tool of the upstream as a tool of this server, or the reason why this is
// not possible.
func (u *upstream) tool(r Remote) (*tool, error) {
	if r.Run == nil {
		return nil, errors.New("it has no function that runs it")
	}
	return u.newTool(r, rulesSee(r), func(args json.RawMessage, depth int) (Gated, map[string]any, error) {
		return decodeRemote(args, depth, r.Facts)
	}, func(ctx context.Context, call Call, in Gated) (*Result, error) {
		c, ok := in.(remoteCall)
		if !ok {
			return nil, fmt.Errorf("run %s with a %T", r.Name, in)
		}
		res, err := r.Run(ctx, call, c.args)
		if err != nil {
			return nil, u.failed(err, call.redacted)
		}
		return res, nil
	})
}

// newTool returns a tool of the upstream. decode reads its arguments, and run runs it.
// Rules also see it under names.
func (u *upstream) newTool(
	r Remote, names []string,
	decode func(args json.RawMessage, depth int) (Gated, map[string]any, error),
	run func(ctx context.Context, call Call, in Gated) (*Result, error),
) (*tool, error) {
	if !isToolName(r.Name) {
		return nil, errors.New("the name must be 1 to 64 letters, digits, _ or -")
	}
	if len(names) > namesMost || slices.ContainsFunc(names, func(n string) bool { return len(n) > nameBytes }) {
		return nil, fmt.Errorf("it has more than %d names, or one of more than %d bytes", namesMost, nameBytes)
	}
	aliases := slices.DeleteFunc(slices.Clone(r.Aliases), func(a string) bool { return a == "" || len(a) > aliasBytes })
	d, err := readDefinition(r.Definition, r.Name)
	if err != nil {
		return nil, err
	}
	return &tool{
		info: Tool{Name: r.Name}, upstream: u, aliases: aliases[:min(len(aliases), aliasMost)], names: names, hints: d.hints, repeats: d.repeats,
		listed: func(_ bool, in wire.Era) json.RawMessage {
			if in == wire.Legacy {
				return d.legacy
			}
			return d.modern
		},
		decode: decode, run: run,
	}, nil
}

// rulesSee returns the names under which rules see a tool, in addition to its own.
func rulesSee(r Remote) []string {
	names := slices.Concat(r.Aliases, r.Names)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" || n == r.Name })
}

// bind returns the decision about a call of a tool, with what the upstream adds to the
// decision. A nil upstream adds nothing.
func (u *upstream) bind(d policies.Decision) policies.Decision {
	if u == nil || d.Verdict == policies.Deny {
		return d
	}
	if u.unguarded {
		asks := ""
		if d.Verdict == policies.Ask {
			asks = fmt.Sprintf("; rule %s requires a person's approval, and nobody was asked", d.Rule)
		}
		d = d.Approved()
		d.Reason = fmt.Sprintf("The safety of upstream %s is off: no approvals and no hooks%s.", u.name, asks)
	}
	if u.limit.Calls > 0 || u.limit.Concurrent > 0 {
		d.Limits = append(slices.Clip(d.Limits), u.limit)
	}
	return d
}

// remoteTable contains the tools of upstreams that a tenant has, by all their names. It
// never changes. A nil table is empty.
type remoteTable struct {
	upstreams []*upstream // sorted by name
	sorted    []*tool     // sorted by name
	byName    map[string]*tool
	byAlias   map[string][]*tool // all tools with an alias
}

// with returns the table with u in place of the upstream of the same name; nil if the table
// would be empty. own reports whether a name is that of the server's own tool. A tool whose
// name is already used is left out, and refused contains the reason.
func (rt *remoteTable) with(u *upstream, own func(name string) bool) (_ *remoteTable, refused []error) {
	next := &remoteTable{byName: make(map[string]*tool), byAlias: make(map[string][]*tool)}
	if rt != nil {
		next.upstreams = slices.DeleteFunc(slices.Clone(rt.upstreams), func(o *upstream) bool { return o.name == u.name })
	}
	for _, o := range next.upstreams {
		for _, t := range o.tools {
			next.byName[t.info.Name] = t
		}
	}
	free := make([]*tool, 0, len(u.tools))
	for _, t := range u.tools {
		switch holder := next.byName[t.info.Name]; {
		case own(t.info.Name):
			refused = append(refused, fmt.Errorf("offer tool %q of upstream %s: a tool of this server has this name", t.info.Name, u.name))
		case holder != nil:
			refused = append(refused, fmt.Errorf("offer tool %q of upstream %s: a tool of upstream %s has this name", t.info.Name, u.name, holder.upstream.name))
		default:
			next.byName[t.info.Name] = t
			free = append(free, t)
		}
	}
	u.tools = free
	if len(u.tools) > 0 || u.note != "" {
		next.upstreams = append(next.upstreams, u)
	}
	if len(next.upstreams) == 0 {
		return nil, refused
	}
	slices.SortFunc(next.upstreams, func(a, b *upstream) int { return strings.Compare(a.name, b.name) })
	for _, name := range sortedKeys(next.byName) {
		t := next.byName[name]
		next.sorted = append(next.sorted, t)
		for _, alias := range t.aliases {
			if !slices.Contains(next.byAlias[alias], t) {
				next.byAlias[alias] = append(next.byAlias[alias], t)
			}
		}
	}
	return next, refused
}

// find returns the tool with a name or an alias.
func (rt *remoteTable) find(name string) (*tool, bool) {
	if rt == nil {
		return nil, false
	}
	if t, ok := rt.byName[name]; ok {
		return t, true
	}
	if several := rt.byAlias[name]; len(several) == 1 {
		return several[0], true
	}
	return nil, false
}

// candidates returns the tools of an alias, if it has several.
func (rt *remoteTable) candidates(alias string) []*tool {
	if rt == nil || len(rt.byAlias[alias]) < 2 {
		return nil
	}
	return slices.Clone(rt.byAlias[alias])
}

// notes returns the notes of the upstreams for clients, by the upstream's name.
func (rt *remoteTable) notes() map[string]string {
	notes := make(map[string]string)
	if rt != nil {
		for _, u := range rt.upstreams {
			if u.note != "" {
				notes[u.name] = u.note
			}
		}
	}
	return notes
}

// ttl returns how long, in milliseconds, a client may keep a list that contains parts of
// the upstreams.
func (rt *remoteTable) ttl() int {
	most := listFresh * time.Millisecond
	if rt != nil {
		for _, u := range rt.upstreams {
			if u.fresh != 0 {
				most = min(most, max(u.fresh, 0))
			}
		}
	}
	return int(most.Milliseconds())
}

// ttl returns remoteTable.ttl of a tenant.
func (ts *toolset) ttl(tenant string) int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.remote[tenant].ttl()
}

// sameList reports whether both tables give clients the same list.
func (rt *remoteTable) sameList(other *remoteTable) bool {
	if rt == nil || other == nil {
		return rt == other
	}
	same := func(a, b *upstream) bool {
		return a.name == b.name && a.note == b.note && slices.EqualFunc(a.listed(), b.listed(), func(a, b *tool) bool {
			// rules hide a tool by its names
			return bytes.Equal(a.listed(false, wire.Modern), b.listed(false, wire.Modern)) && slices.Equal(a.names, b.names)
		})
	}
	return slices.EqualFunc(rt.upstreams, other.upstreams, same)
}

// listed returns the tools that lists show.
func (u *upstream) listed() []*tool {
	return slices.DeleteFunc(slices.Clone(u.tools), func(t *tool) bool { return t.unlisted })
}
