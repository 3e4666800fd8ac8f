package policies

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"belljar.dev/internal/golden"
)

// These tests walk types by their fields. They fail if a field is added and left out of
// Covers, least, Narrow or Regrant, and also if they have no case for a field.

// field returns a field of a struct, which can be set although it is not exported.
func field(v any, name string) reflect.Value {
	f := reflect.ValueOf(v).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// fieldNames returns the names of the fields of a struct, with those of the structs that
// are embedded in it.
func fieldNames(v any) []string {
	var all []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		if !f.Anonymous {
			all = append(all, f.Name)
		}
	}
	return all
}

// sameNames fails the test unless a table has a case for each name, and no other.
func sameNames(t *testing.T, table string, cases, names []string) {
	t.Helper()
	for _, name := range names {
		if !slices.Contains(cases, name) {
			t.Errorf("%q has no case: add one to %s", name, table)
		}
	}
	for _, name := range cases {
		if !slices.Contains(names, name) {
			t.Errorf("%q does not exist: remove its case from %s", name, table)
		}
	}
}

// asNumber returns a field of Limits as a number.
func asNumber(f reflect.Value) float64 {
	if f.CanFloat() {
		return f.Float()
	}
	return float64(f.Int())
}

// setNumber sets a field of Limits to a number.
func setNumber(f reflect.Value, to float64) {
	if f.CanFloat() {
		f.SetFloat(to)
		return
	}
	f.SetInt(int64(to))
}

// limitsOf returns Limits with the same number in every field.
func limitsOf(n float64) Limits {
	var l Limits
	for _, name := range fieldNames(l) {
		setNumber(field(&l, name), n)
	}
	return l
}

// covered returns a grant that has something in each field that Covers looks at.
func covered() Grant {
	return Grant{
		tenant: "t", totals: Totals{1, 1, 1, 1, 1, 1, 1},
		profileGrant: profileGrant{
			profile: "p", access: AccessRead, system: true,
			mounts: []Mount{{Source: "/a", Target: "/a"}}, network: NetworkNone,
			publish: []PortRange{{80, 81}}, image: "i", storage: StorageMemory,
			protect: Protect{Also: []string{"x"}}, limits: limitsOf(10),
			env: map[string]string{"A": "1"}, exec: ExecObserve,
		},
	}
}

func TestCoversEveryLimit(t *testing.T) {
	ofBox := fieldNames(BoxLimits{})
	for _, name := range fieldNames(Limits{}) {
		box, more, less := covered(), covered(), covered()
		setNumber(field(&more.limits, name), 11)
		setNumber(field(&less.limits, name), 9)
		if !box.Covers(less) {
			t.Errorf("a box does not serve a call with less of %s", name)
		}
		if got, want := box.Covers(more), !slices.Contains(ofBox, name); got != want {
			t.Errorf("a box serves a call with more of %s: got %v, want %v", name, got, want)
		}
	}
}

// TestCoversEveryField has, for each field of a grant, values that differ from those in
// covered, and whether a box of covered serves a call whose grant has one of these values.
func TestCoversEveryField(t *testing.T) {
	type values []any
	differs := map[string]values{ // a call with one of these values needs another box
		"tenant": {"", "u"},
		"access": {AccessNone, AccessOverlay, AccessWrite},
		"system": {false},
		"mounts": {
			[]Mount(nil),
			[]Mount{{Source: "/b", Target: "/a"}},
			[]Mount{{Source: "/a", Target: "/b"}},
			[]Mount{{Source: "/a", Target: "/a", Writable: true}},
			[]Mount{{Source: "/a", Target: "/a"}, {Source: "/b", Target: "/b"}},
		},
		"network":    {NetworkDoor},
		"egress":     {&Egress{Intercept: true}},
		"image":      {"", "j"},
		"storage":    {StorageDisk},
		"protect":    {Protect{}, Protect{Off: true, Also: []string{"x"}}, Protect{Also: []string{"x", "y"}}, Protect{Also: []string{"y"}}},
		"env":        {map[string]string(nil), map[string]string{"A": "2"}, map[string]string{"A": "1", "B": "2"}, map[string]string{"B": "1"}},
		"exec":       {ExecOff, ExecEnforce},
		"browserBox": {true},
		"nests":      {true},
		"downloads":  {int64(5)},
		"upstream":   {UpstreamBox{Server: "s"}, UpstreamBox{Server: "s", Install: true}},
	}
	// These fields say nothing about how a box was made: they change for boxes that are
	// open, are asked for each call, or bound all boxes of a tenant.
	free := map[string]values{
		"publish":  {[]PortRange(nil), []PortRange{{90, 91}}},
		"totals":   {Totals{2, 2, 2, 2, 2, 2, 2}},
		"require":  {[]Limit{LimitIO}},
		"clip":     {clip{readOnly: true}},
		"audited":  {true},
		"reading":  {Reading{Robots: true}},
		"browser":  {browsing{walls: BrowserSandboxed}, browsing{acting: Acting{Act: true}}},
		"acts":     {[]Act{{Kind: ActPress}}},
		"policy":   {&Policy{}},
		"below":    {[]*Layer{nil}},
		"call":     {&Facts{}},
		"approved": {true},
		"asked":    {"q"},
	}
	// limits and profile have tests of their own.
	cases := slices.Concat(slices.Collect(maps.Keys(differs)), slices.Collect(maps.Keys(free)), []string{"limits", "profile"})
	sameNames(t, "differs or free in fields_test.go", cases, fieldNames(Grant{}))
	if !covered().Covers(covered()) {
		t.Fatal("a grant does not cover itself")
	}
	for _, group := range []struct {
		fields map[string]values
		want   bool
	}{{differs, false}, {free, true}} {
		for name, others := range group.fields {
			for _, other := range others {
				box, call := covered(), covered()
				field(&call, name).Set(reflect.ValueOf(other))
				if got := box.Covers(call); got != group.want {
					t.Errorf("%s is %+v and not %+v: got %v, want %v", name, other, field(&box, name), got, group.want)
				}
				if got := call.Covers(box); got != group.want {
					t.Errorf("%s is %+v and not %+v, the other way round: got %v, want %v", name, field(&box, name), other, got, group.want)
				}
			}
		}
	}
}

// Two profiles share a box only if nothing depends on which of the two profiles it has.
func TestCoversTwoProfiles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(box, call *Grant)
		want   bool
	}{
		{"nothing else", func(_, _ *Grant) {}, true},
		{"no profile", func(_, call *Grant) { call.profile = "" }, false},
		{"other ports to publish", func(_, call *Grant) { call.publish = nil }, false},
		{"a door each", func(box, call *Grant) { box.network, call.network = NetworkDoor, NetworkDoor }, false},
		{"commands that are asked about", func(box, call *Grant) { box.exec, call.exec = ExecEnforce, ExecEnforce }, false},
		{"commands that are written down", func(box, call *Grant) { box.exec, call.exec = ExecObserve, ExecObserve }, true},
	} {
		box, call := covered(), covered()
		call.profile = "q"
		tt.change(&box, &call)
		if got := box.Covers(call); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A layer can lower each limit alone, and never raises one.
func TestLeastOfEveryLimit(t *testing.T) {
	for _, name := range fieldNames(Limits{}) {
		for _, tt := range []struct{ own, layer, want float64 }{
			{10, 9, 9}, {9, 10, 9}, {10, 0, 10}, {0, 10, 10}, {0, 0, 0},
		} {
			own, layer, want := limitsOf(5), limitsOf(5), limitsOf(5)
			setNumber(field(&own, name), tt.own)
			setNumber(field(&layer, name), tt.layer)
			setNumber(field(&want, name), tt.want)
			if got := own.least(layer); got != want {
				t.Errorf("%s of %v and %v: got %+v", name, tt.own, tt.layer, got)
			}
		}
	}
}

// A clip takes away everything that its fields say: each field alone takes something, two
// clips together take what both take, and the grant keeps the clip.
func TestClipEveryField(t *testing.T) {
	takes := map[string]clip{
		"readOnly": {readOnly: true},
		"offline":  {offline: true},
		"limits":   {limits: limitsOf(5)},
	}
	sameNames(t, "takes in fields_test.go", slices.Collect(maps.Keys(takes)), fieldNames(clip{}))
	whole := covered()
	whole.access, whole.network, whole.egress, whole.mounts = AccessWrite, NetworkDoor, &Egress{}, []Mount{{Source: "/a", Target: "/a", Writable: true}}
	for name, c := range takes {
		for _, both := range []clip{c.and(clip{}), clip{}.and(c), c.and(c)} {
			if both != c {
				t.Errorf("%s and nothing: got %+v", name, both)
			}
		}
		g := whole.clipped(c)
		if g.clip != c {
			t.Errorf("%s: the grant remembers %+v", name, g.clip)
		}
		if got := g.access == AccessRead && !g.mounts[0].Writable; got != c.readOnly {
			t.Errorf("%s: nothing of the host can be written: got %v", name, got)
		}
		if got := g.network == NetworkNone && g.egress == nil && g.publish == nil; got != c.offline {
			t.Errorf("%s: nothing leaves the box: got %v", name, got)
		}
		if got := g.limits == limitsOf(5); got != (c.limits != Limits{}) {
			t.Errorf("%s: the limits are the layer's: got %v, %+v", name, got, g.limits)
		}
	}
	if !whole.mounts[0].Writable {
		t.Error("what is clipped changes the grant that it was made of")
	}
}

// keyOf returns the key of a field in policies: TmpFiles is tmp_files, CPU is cpu.
func keyOf(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_${2}"))
}

// Every limit has a key of its own, and a default above zero.
func TestEveryLimitHasAKey(t *testing.T) {
	var keys []string
	for _, name := range fieldNames(Limits{}) {
		keys = append(keys, keyOf(name))
		value, three := "3", 3.0
		var want Limits
		profileLimits.usual(&want)
		f := field(&want, name)
		if asNumber(f) <= 0 {
			t.Errorf("%s has no default above zero", name)
		}
		if f.Type() == reflect.TypeFor[time.Duration]() {
			value, three = "3s", float64(3*time.Second)
		}
		setNumber(f, three)
		p, err := Parse("policy.yaml", []byte("version: 1\nprofiles: {a: {limits: {"+keyOf(name)+": "+value+"}}}\n"))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := p.profiles["a"].limits; got != want {
			t.Errorf("%s: %s: got %+v, want %+v", keyOf(name), value, got, want)
		}
	}
	sameNames(t, "boxLimits or commandLimits in limits.go", limitsShape.names(), keys)
}

// Unset finds each limit that is zero or below.
func TestEveryLimitCanBeUnset(t *testing.T) {
	for _, name := range fieldNames(Limits{}) {
		for _, value := range []float64{0, -1} {
			l := limitsOf(1)
			setNumber(field(&l, name), value)
			if got := l.Unset(); got != keyOf(name) {
				t.Errorf("%s of %v: got %q as unset", name, value, got)
			}
		}
	}
	if got := limitsOf(1).Unset(); got != "" {
		t.Errorf("with every limit: got %q as unset", got)
	}
}

// A grant can give the workspace to a call with the same or less access, never with more.
func TestNarrowNeverWidens(t *testing.T) {
	for from := AccessNone; from <= AccessWrite; from++ {
		for to := AccessNone; to <= AccessWrite; to++ {
			g := covered()
			g.access = from
			got, err := g.Narrow(to)
			if (err == nil) != (to <= from) || err == nil && got.access != to || err != nil && !got.IsZero() {
				t.Errorf("from %v to %v: got %v, %v", from, to, got.access, err)
			}
		}
	}
}

// A caller may change any value that a method of a grant returns, and the grant stays the
// same. The value of Egress is shared, as its comment says.
func TestGrantsGiveCopies(t *testing.T) {
	g := covered()
	g.require = []Limit{LimitIO}
	v, changed := reflect.ValueOf(g), 0
	for m := range reflect.TypeFor[Grant]().Methods() {
		f := v.MethodByName(m.Name)
		if m.Type.NumIn() != 1 || m.Type.NumOut() != 1 || !m.IsExported() {
			continue // the method has an argument, and returns something about it
		}
		before := fmt.Sprintf("%+v", f.Call(nil)[0])
		if spoil(f.Call(nil)[0]) {
			changed++
		}
		if after := fmt.Sprintf("%+v", f.Call(nil)[0]); after != before {
			t.Errorf("%s: a caller has changed the grant from %s to %s", m.Name, before, after)
		}
	}
	if changed < 5 { // mounts, publish, protect, env, require
		t.Errorf("%d methods return what can be changed", changed)
	}
}

// spoil changes the parts of a value that it shares with others, and reports whether there
// are such parts.
func spoil(v reflect.Value) (changed bool) {
	switch v.Kind() { // nothing else is shared
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetZero()
			changed = true
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.Value{})
			changed = true
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanInterface() {
				changed = spoil(f) || changed
			}
		}
	}
	return changed
}

// The tables of docs/policy.md have each limit, with its default.
func TestEveryLimitIsDocumentedWithItsDefault(t *testing.T) {
	doc, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for section, shape := range map[string]*shape{"net": netLimitsShape, "totals": totalsShape, "upstreams": upstreamTimeoutShape, "browser": actLimits.shape("", "")} {
		_, text, _ := strings.Cut(string(doc), "\n### "+section+"\n")
		text, _, _ = strings.Cut(text, "\n### ")
		for _, k := range shape.keys {
			_, usual, _ := strings.Cut(strings.TrimSuffix(k.is().Description, "."), " Without it: ")
			if row := "\n| `" + k.name + "` | " + usual + " |"; usual == "" || !strings.Contains(text, row) {
				t.Errorf("section %s of docs/policy.md lacks %q", section, row)
			}
		}
	}
	text := "| limit | default | what it bounds |\n|---|---|---|\n"
	for _, k := range limitsShape.keys {
		what, usual, _ := strings.Cut(strings.TrimSuffix(k.is().Description, "."), " Without it: ")
		text += "| `" + k.name + "` | " + usual + " | " + strings.TrimSuffix(what, ".") + " |\n"
	}
	golden.Section(t, "../docs/policy.md", "limits", text)
	for _, k := range tenantLimitShape.keys {
		_, usual, _ := strings.Cut(strings.TrimSuffix(k.is().Description, "."), " Without it: ")
		if row := regexp.MustCompile("(?m)^\\| .*`limit." + k.name + "`.* \\| .*\\b" + regexp.QuoteMeta(usual) + "\\b.* \\|"); !row.Match(doc) {
			t.Errorf("docs/policy.md lacks the default %s of limit.%s", usual, k.name)
		}
	}
}

// A field without a row in its table would be zero, and no code may use a zero limit.
func TestTablesHaveEveryField(t *testing.T) {
	var limits Limits
	profileLimits.usual(&limits)
	var door EgressLimits
	netLimits.usual(&door)
	var totals Totals
	totalLimits.usual(&totals)
	var times UpstreamTimeouts
	upstreamTimeouts.usual(&times)
	var acting ActLimits
	actLimits.usual(&acting)
	for _, v := range []any{&limits, &door, &totals, &times, &acting} {
		for f, value := range reflect.ValueOf(v).Elem().Fields() {
			if value.IsZero() {
				t.Errorf("%T has no default for %s", v, f.Name)
			}
		}
	}
}

// wholes contains the keys of a profile that can be mappings and are nevertheless inherited
// as a whole, each with the reason.
var wholes = map[string]string{
	"browser":   "a profile that states other walls shall not keep the right to act and the secrets of its parent",
	"net.allow": "the mapping is one host",
	"net.deny":  "the same",
}

// mappingIn returns the form of the mapping that a value may be, or nil.
func mappingIn(f *form) *form {
	if f.Type == "object" || f.Ref != "" {
		return f
	}
	for _, one := range f.AnyOf {
		if m := mappingIn(one); m != nil {
			return m
		}
	}
	return nil
}

// Each key of a profile that can be a mapping is either inherited key by key, which
// docs/policy.md says, or is in wholes.
func TestEveryMappingIsInherited(t *testing.T) {
	doc, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, extends, _ := strings.Cut(string(doc), "\n### extends\n")
	_, extends, _ = strings.Cut(extends, "\n```\n")
	extends, _, said := strings.Cut(extends, "this applies to each of their keys")
	if !said {
		t.Fatal("section extends of docs/policy.md does not say which keys are inherited key by key")
	}
	var mappings []string
	var add func(in string, s *shape)
	add = func(in string, s *shape) {
		for _, k := range s.keys {
			f := mappingIn(k.is())
			if f == nil {
				continue
			}
			name := in + k.name
			mappings = append(mappings, name)
			if _, whole := wholes[name]; !whole && f.of != nil {
				add(name+".", f.of[0])
			}
		}
	}
	add("", profileShape)
	cases := slices.Collect(maps.Keys(wholes))
	for key, deeper := range inherited {
		names := []string{key}
		for _, d := range deeper {
			names = append(names, key+"."+d)
		}
		for _, name := range names {
			if !strings.Contains(extends, "`"+name+"`") {
				t.Errorf("section extends of docs/policy.md does not say that %s is inherited key by key", name)
			}
		}
		cases = append(cases, names...)
	}
	sameNames(t, "inherited in parse_extends.go or wholes in fields_test.go", cases, mappings)
}

// matchCases contains, for each field of match, the keys that set it. beside is the field
// that these keys have to set as well; the tool is always set. fits is a call that such a
// match fits, and fails is one that it does not fit.
var matchCases = map[string]struct {
	tool         string // name of the tool; "" for Bash
	keys, beside string
	fits, fails  Facts
}{
	"tools":     {fails: Facts{Tool: "ReadImage"}},
	"commands":  {keys: "command: ls", fits: Facts{Command: "ls"}, fails: Facts{Command: "pwd"}},
	"paths":     {keys: "path: /workspace/x", fits: Facts{Paths: []string{"/workspace/x"}}, fails: Facts{Paths: []string{"/workspace/y"}}},
	"urls":      {keys: "url: https://x.example/", fits: Facts{URLs: []string{"https://x.example/"}}, fails: Facts{URLs: []string{"https://y.example/"}}},
	"hosts":     {keys: "host: x.example", fits: Facts{Hosts: []string{"x.example"}}, fails: Facts{Hosts: []string{"y.example"}}},
	"flags":     {keys: "command: '**', flags: [-l]", beside: "commands", fits: Facts{Command: "ls -l"}, fails: Facts{Command: "ls -a"}},
	"anyFlag":   {keys: "command: '**', any_flag: [-l]", beside: "commands", fits: Facts{Command: "ls -l"}, fails: Facts{Command: "ls -a"}},
	"env":       {keys: "command: '**', env: [A]", beside: "commands", fits: Facts{Command: "ls", Env: []string{"A"}}, fails: Facts{Command: "ls", Env: []string{"B"}}},
	"acts":      {tool: ActTool, keys: "act: press", fits: acting("press", "https://x.example/"), fails: acting("type", "https://x.example/")},
	"places":    {tool: ActTool, keys: "act: press, on: https://x.example/", beside: "acts", fits: acting("press", "https://x.example/"), fails: acting("press", "https://y.example/")},
	"profiles":  {keys: "profile: p", fits: Facts{Profile: "p"}, fails: Facts{Profile: "q"}},
	"upstreams": {keys: "upstream: u", fits: Facts{Upstream: "u"}, fails: Facts{Upstream: "v"}},
	"hints":     {keys: "annotations: {readOnlyHint: true}", fits: Facts{Annotations: map[string]bool{"readOnlyHint": true}}},
}

// acting returns the facts of a call that acts on a page.
func acting(kind ActKind, on string) Facts {
	return Facts{Tool: ActTool, Acts: []Act{{Kind: kind, On: on, Field: "text"}}}
}

// Several functions judge, before there is a call, which calls a rule is about: whether it
// has an exception, hides a tool, is covered by another rule, or opens a tool. If one of
// them does not know a key, it would treat the key as missing: an exception would be lost,
// or a tool would be hidden although some calls of it are allowed.
func TestEveryKeyOfAMatchIsJudged(t *testing.T) {
	sameNames(t, "matchCases in fields_test.go", slices.Collect(maps.Keys(matchCases)), fieldNames(match{}))
	const policy = "version: 1\ndefaults: {decision: allow, profile: p}\nprofiles: {p: {}, q: {}}\nrules:\n  - {id: r, match: {tool: %s, %s}, decision: deny, reason: x}\n"
	for name, c := range matchCases {
		tool := cmp.Or(c.tool, "Bash")
		parse := func(keys string) (*Policy, error) { return Parse("policy.yaml", fmt.Appendf(nil, policy, tool, keys)) }
		p, err := parse(c.keys)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := &p.rules[0].match
		for _, other := range fieldNames(match{}) {
			if set := !field(m, other).IsZero(); set != (other == name || other == c.beside || other == "tools") {
				t.Errorf("%s: the case has the field %s: %v", name, other, set)
			}
		}
		if name == "tools" {
			continue
		}
		if !m.narrow() || m.isZero() {
			t.Errorf("%s: a match with it counts as one without", name)
		}
		plain := match{tools: m.tools}
		if c.beside != "" { // the keys that set beside must not make the difference alone
			field(&plain, c.beside).Set(field(m, c.beside))
			alone := c.keys[strings.Index(c.keys, ", ")+2:]
			if _, err := parse(alone); err == nil {
				t.Errorf("%s: %s is taken without what it needs", name, alone)
			}
		}
		if m.covers(&plain, true) {
			t.Errorf("%s: a match with it covers one without", name)
		}
		if m.onCalls(&Facts{Tool: tool}) == must || p.hides(&Facts{Tool: tool}) {
			t.Errorf("%s: a rule with it counts as one about all calls", name)
		}
		if o := p.openness("q", tool); o.Unasked == UnaskedNone {
			t.Errorf("%s: a rule with it closes the tool: %+v", name, o)
		}
	}
}
