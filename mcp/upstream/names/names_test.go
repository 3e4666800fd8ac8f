package names

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/testenv"
	"github.com/google/go-cmp/cmp"
)

func built(t *testing.T, cfg Config) *Table {
	t.Helper()
	table, err := Build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// leads checks what a name leads to: "server/native" for a tool, "own", "unknown", or the
// candidates of an ambiguous name.
func leads(t *testing.T, table *Table, name, want string) {
	t.Helper()
	if got := target(table, name); got != want {
		t.Errorf("%q leads to %s, want %s", name, got, want)
	}
}

func target(table *Table, name string) string {
	tool, err := table.Find(name)
	var several *AmbiguousError
	switch {
	case errors.As(err, &several):
		return strings.Join(several.Candidates, " or ")
	case errors.Is(err, ErrOwn):
		return "own"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case err != nil:
		return err.Error()
	}
	return tool.Server + "/" + tool.Native
}

var own = []string{"Bash", "Read", "TaskManager", "WebSearch"}

func TestNamesOfATool(t *testing.T) {
	table := built(t, Config{Own: own, Servers: []Server{
		{Name: "browser", Prefix: "playwright", Tools: []string{"navigate", "a.b", "x:y"}},
		{Name: "git.hub", Tools: []string{"create-issue"}},
	}})
	for name, want := range map[string]string{
		"mcp_playwright_navigate":      "browser/navigate",
		"mcp:playwright.navigate":      "browser/navigate",
		"navigate":                     "browser/navigate",
		"mcp__playwright__navigate":    "browser/navigate",
		"mcp_playwright_a_b":           "browser/a.b",
		"mcp:playwright.a.b":           "browser/a.b",
		"a.b":                          "browser/a.b",
		"mcp__playwright__a.b":         "browser/a.b",
		"mcp__playwright__a_b":         "browser/a.b",
		"b":                            "unknown",
		"mcp_playwright_x_y":           "browser/x:y",
		"mcp:playwright.x:y":           "browser/x:y",
		"mcp_git_hub_create-issue":     "git.hub/create-issue",
		"mcp:git.hub.create-issue":     "git.hub/create-issue",
		"mcp:git_hub.create-issue":     "git.hub/create-issue",
		"mcp__git.hub__create-issue":   "git.hub/create-issue",
		"mcp__git_hub__create-issue":   "git.hub/create-issue",
		"mcp:browser.navigate":         "unknown",
		"mcp:playwright_navigate":      "unknown",
		"MCP_playwright_navigate":      "unknown",
		"mcp_playwright_navigate ":     "unknown",
		"mcp:playwright.":              "unknown",
		"":                             "unknown",
		"Bash":                         "own",
		"bash":                         "unknown",
		"mcp__belljar__Bash":           "unknown",
		"mcp_playwright_navigate\x00x": "unknown",
	} {
		leads(t, table, name, want)
	}
	tool, err := table.Find("navigate")
	if err != nil {
		t.Fatal(err)
	}
	want := Tool{Primary: "mcp_playwright_navigate", Server: "browser", Native: "navigate", Aliases: []string{"mcp:playwright.navigate", "mcp__playwright__navigate", "navigate"}}
	if diff := cmp.Diff(want, tool); diff != "" {
		t.Errorf("the tool (-want +got):\n%s", diff)
	}
}

// If two servers with the same prefix have tools of the same name, both tools are listed
// under names of their own, and the names that both claim lead to neither.
func TestTwoServersOfOnePrefix(t *testing.T) {
	table := built(t, Config{Servers: []Server{
		{Name: "a", Prefix: "p", Tools: []string{"navigate", "only"}},
		{Name: "b", Prefix: "p", Tools: []string{"navigate"}},
	}})
	var primaries []string
	for _, tool := range table.List() {
		primaries = append(primaries, tool.Primary)
		leads(t, table, tool.Primary, tool.Server+"/"+tool.Native)
	}
	want := []string{"mcp_p_navigate_" + digest("a", "navigate")[:4], "mcp_p_navigate_" + digest("b", "navigate")[:4], "mcp_p_only"}
	slices.Sort(want)
	if !slices.Equal(primaries, want) {
		t.Fatalf("got the names %q, want %q", primaries, want)
	}
	both := strings.Join(want[:2], " or ")
	for _, name := range []string{"navigate", "mcp_p_navigate", "mcp:p.navigate", "mcp__p__navigate"} {
		leads(t, table, name, both)
	}
	leads(t, table, "only", "a/only")
	_, err := table.Find("navigate")
	if err == nil || !strings.Contains(err.Error(), "nothing was called; use one of these names: "+want[0]+", "+want[1]) {
		t.Errorf("the error is %v, want it to have the candidates", err)
	}
}

// The meaning of a name does not change silently when a second server claims it: the former
// name of the first tool becomes ambiguous, and a name that only one server has stays
// valid.
func TestFormerNames(t *testing.T) {
	one := []Server{{Name: "a", Prefix: "p", Tools: []string{"navigate", "t"}}}
	first := built(t, Config{Servers: one})
	second := built(t, Config{Servers: append(one, Server{Name: "b", Prefix: "p", Tools: []string{"navigate"}}), Former: first.Former()})
	leads(t, second, "mcp_p_navigate", strings.Join(slices.Sorted(slices.Values([]string{
		"mcp_p_navigate_" + digest("a", "navigate")[:4], "mcp_p_navigate_" + digest("b", "navigate")[:4],
	})), " or "))
	third := built(t, Config{Servers: one, Former: second.Former()})
	leads(t, third, "mcp_p_navigate", "a/navigate")
	leads(t, third, "mcp_p_navigate_"+digest("a", "navigate")[:4], "a/navigate")
	leads(t, third, "mcp_p_navigate_"+digest("b", "navigate")[:4], "unknown")

	renamed := []Server{{Name: "a", Prefix: "q", Tools: []string{"navigate", "t"}}}
	fourth := built(t, Config{Servers: renamed, Former: third.Former()})
	leads(t, fourth, "mcp_p_t", "a/t")
	leads(t, fourth, "mcp_q_t", "a/t")
	// A name that is a tool's present primary name leads to that tool, whichever tool had
	// it before.
	fifth := built(t, Config{Servers: append(renamed, Server{Name: "c", Prefix: "p", Tools: []string{"t"}}), Former: fourth.Former()})
	leads(t, fifth, "mcp_p_t", "c/t")
	// A former name does not take one of our own names either.
	sixth := built(t, Config{Own: []string{"mcp_p_t"}, Servers: renamed, Former: fourth.Former()})
	leads(t, sixth, "mcp_p_t", "own")
}

// A server whose tools are away, for example because it does not run, keeps their names. No
// other server takes them over meanwhile: not with a tool of the same name, not with a
// prefix that looks like the beginning of a name, and not with a dot.
func TestNamesOfToolsThatAreAway(t *testing.T) {
	with := func(bank ...string) []Server {
		return []Server{
			{Name: "bank", Prefix: "p", Tools: bank},
			{Name: "my.bank", Tools: bank},
			{Name: "x", Prefix: "p", Tools: []string{"pay", "own"}},
			{Name: "my", Tools: []string{"bank_pay", "bank.pay"}},
		}
	}
	former := built(t, Config{Servers: with("pay")[:2]}).Former()
	table := built(t, Config{Servers: with(), Former: former})
	for name, want := range map[string]string{
		"mcp_p_pay": "unknown", "mcp:p.pay": "unknown", "mcp__p__pay": "unknown",
		"mcp_my_bank_pay": "unknown", "mcp:my.bank.pay": "unknown", "mcp__my.bank__pay": "unknown", "mcp__my_bank__pay": "unknown",
		"mcp_p_own": "x/own", "mcp_p_pay_" + digest("x", "pay")[:4]: "x/pay", "pay": "x/pay",
	} {
		leads(t, table, name, want)
	}
	if n := len(table.List()); n != 4 {
		t.Errorf("%d tools are listed, want 4", n)
	}
	back := built(t, Config{Servers: with("pay")[:2], Former: table.Former()})
	leads(t, back, "mcp_p_pay", "bank/pay")
	leads(t, back, "mcp_my_bank_pay", "my.bank/pay")
	// A server that was removed keeps no names.
	gone := built(t, Config{Servers: with()[2:], Former: former})
	leads(t, gone, "mcp_p_pay", "x/pay")
}

func TestFormerNamesAreBounded(t *testing.T) {
	var former []Former
	for i := range 20 {
		table := built(t, Config{Servers: []Server{{Name: "a", Prefix: fmt.Sprintf("p%d", i), Tools: []string{"t"}}}, Former: former})
		former = table.Former()
	}
	if len(former) != maxFormer || former[len(former)-1].Name != "mcp_p19_t" || former[0].Name != "mcp_p16_t" {
		t.Errorf("got the former names %v, want those of the last %d tables", former, maxFormer)
	}
	odd := []Former{{"Bash", "a", "t"}, {"mcp__x__t", "a", "t"}, {"mcp_a b", "a", "t"}, {"mcp_old", "a", "t"}}
	table := built(t, Config{Servers: []Server{{Name: "a", Tools: []string{"t"}}}, Former: odd})
	leads(t, table, "Bash", "unknown")
	leads(t, table, "mcp_a b", "unknown")
	leads(t, table, "mcp_old", "a/t")
}

// Some tools have names that imitate others. None of them takes a name of another server's
// tool or of our own tools.
func TestHostileToolNames(t *testing.T) {
	long := strings.Repeat("long", 125)
	hostile := []string{
		"Bash", "bash", "READ", "mcp_files_read", "mcp:files.read", "mcp__files__read", "MCP_files_read", "mcp",
		"", long, strings.Repeat("x", maxNative+1), "a\x00b", "../x", "\u202eeman", "👍", "a\u200bb", "with space", "\xff", "read", "ＢＡＳＨ",
	}
	table := built(t, Config{Own: own, Servers: []Server{
		{Name: "evil", Tools: hostile},
		{Name: "files", Tools: []string{"read", "list"}},
	}})
	for name, want := range map[string]string{
		"Bash": "own", "Read": "own", "bash": "unknown", "READ": "unknown",
		"mcp_files_read": "files/read", "mcp:files.read": "files/read", "mcp__files__read": "files/read", "MCP_files_read": "unknown", "mcp": "unknown",
		"read": "unknown", // our own tool Read, in lower case
		"list": "files/list",
		// The tools of the hostile server have names with that server's prefix only.
		"mcp_evil_Bash": "evil/Bash", "mcp_evil_MCP_files_read": "evil/MCP_files_read", "mcp:evil.mcp:files.read": "evil/mcp:files.read",
		"a\x00b": "unknown", "a\u200bb": "unknown",
		"../x": "evil/../x", "mcp_evil____x": "evil/../x",
		"\u202eeman": "unknown", "mcp_evil__eman": "evil/\u202eeman",
		"with space": "unknown", "mcp_evil_with_space": "evil/with space",
		"": "unknown", "mcp_evil_": "unknown",
	} {
		leads(t, table, name, want)
	}
	if _, err := table.Find("mcp_evil_a_b"); !errors.As(err, new(*AmbiguousError)) {
		t.Errorf("mcp_evil_a_b: got %v, want it to be ambiguous: it stands for a name with a zero byte and one with a hidden space", err)
	}
	var refused []string
	for _, n := range table.Notices() {
		if n.Server != "evil" {
			t.Errorf("a notice about %s: %s", n.Server, n.Text)
		}
		refused = append(refused, n.Tool)
	}
	if want := []string{"", strings.Repeat("x", maxNative+1), "\xff"}; !slices.Equal(refused, want) {
		t.Errorf("refused were %.60q, want %.60q", refused, want)
	}
	if got, want := len(table.List()), len(hostile)-3+2; got != want {
		t.Errorf("got %d tools, want %d: each other one stays", got, want)
	}
	for _, tool := range table.List() {
		if len(tool.Primary) > DefaultBudget || tool.Primary != sanitised(tool.Primary) {
			t.Errorf("the name %q of %.20q has characters that clients refuse, or is too long", tool.Primary, tool.Native)
		}
	}
}

func TestHostilePrefixes(t *testing.T) {
	long := strings.Repeat("p", 200)
	servers := []Server{
		{Name: "", Prefix: "", Tools: []string{"t"}},
		{Name: "s1", Prefix: "", Tools: []string{"t"}},
		{Name: "s2", Prefix: "mcp", Tools: []string{"t"}},
		{Name: "s3", Prefix: "a b", Tools: []string{"t"}},
		{Name: "s4", Prefix: "x:y", Tools: []string{"t"}},
		{Name: "s5", Prefix: long, Tools: []string{"t"}},
		{Name: "s6", Prefix: "_files_", Tools: []string{"_read"}},
		{Name: "s7", Prefix: "搜索", Tools: []string{"t"}},
		{Name: "files", Tools: []string{"read"}},
	}
	table := built(t, Config{Servers: servers})
	for name, want := range map[string]string{
		"mcp_s1_t": "s1/t", "mcp_mcp-server_t": "s2/t", "mcp_mcp_t": "unknown", "mcp:mcp.t": "s2/t",
		"mcp_a_b_t": "s3/t", "mcp:a_b.t": "s3/t", "mcp:a b.t": "unknown",
		"mcp_x_y_t": "s4/t", "mcp:x:y.t": "s4/t", "mcp:x_y.t": "s4/t",
		"mcp_files_read": "files/read", "mcp__files__read": "files/read", "mcp_files__read": "s6/_read",
		"mcp__t": "unknown",
	} {
		leads(t, table, name, want)
	}
	said := make(map[string]string)
	for _, n := range table.Notices() {
		said[n.Server] = n.Text
	}
	for name, want := range map[string]string{
		"": "no tool is offered; set another prefix", "s2": `"mcp-server"`, "s3": `"a_b"`, "s4": `"x_y"`, "s5": `"ppp`, "s6": `"files"`, "s7": "no tool is offered",
	} {
		if !strings.Contains(said[name], want) {
			t.Errorf("the notice about %q is %q, want it to have %s", name, said[name], want)
		}
	}
	for _, tool := range table.List() {
		if tool.Server == "s5" && (len(tool.Primary) > 40 || !strings.HasSuffix(tool.Primary, "_t")) {
			t.Errorf("the name of a tool behind a long prefix is %q", tool.Primary)
		}
	}
	twice := built(t, Config{Servers: []Server{{Name: "a", Prefix: "x", Tools: []string{"t"}}, {Name: "b"}, {Name: "a", Prefix: "y", Tools: []string{"u"}}}})
	if len(twice.List()) != 0 || len(twice.Notices()) != 2 {
		t.Errorf("two servers of one name: got %v and the notices %v", twice.List(), twice.Notices())
	}
}

// A tool that is named like the digest of another tool does not take that tool's name: the
// other tool gets more digits, and its former name is refused as ambiguous.
func TestAToolNamedLikeADigest(t *testing.T) {
	sham := "t_" + digest("a", "t")[:4]
	servers := []Server{{Name: "a", Prefix: "p", Tools: []string{"t"}}, {Name: "b", Prefix: "p", Tools: []string{"t"}}}
	before := built(t, Config{Servers: servers})
	leads(t, before, "mcp_p_"+sham, "a/t")
	table := built(t, Config{Former: before.Former(), Servers: append(servers, Server{Name: "c", Prefix: "p", Tools: []string{sham}})})
	for _, tool := range table.List() {
		leads(t, table, tool.Primary, tool.Server+"/"+tool.Native)
		if tool.Primary == "mcp_p_"+sham {
			t.Errorf("%s/%s has the name that another tool had", tool.Server, tool.Native)
		}
	}
	if len(table.List()) != 3 {
		t.Errorf("got %v, want three tools", table.List())
	}
	if _, err := table.Find("mcp_p_" + sham); !errors.As(err, new(*AmbiguousError)) {
		t.Errorf("the name that both want: got %v, want it to be ambiguous", err)
	}
}

// A name that a tool lost is still listed as one of its lost names, whichever server took
// it away and however often: the name without digits, the name with digits, and an earlier
// name.
func TestLostNamesAreKnown(t *testing.T) {
	long := strings.Repeat("x", 60)
	cut := strings.TrimPrefix(candidate(base("p", long), "a", long, 0, DefaultBudget), "mcp_p_")
	table := built(t, Config{
		Servers: []Server{
			{Name: "a", Prefix: "p", Tools: []string{"send_mail", "t", "mine", long}},
			{Name: "b", Prefix: "p", Tools: []string{"send.mail", "t", cut}},
			{Name: "c", Prefix: "p", Tools: []string{"t_" + digest("a", "t")[:4], "old"}},
		},
		Former: []Former{{"mcp_p_old", "a", "mine"}, {"mcp_q_mine", "a", "mine"}, {"mcp_q_mine", "c", "old"}},
	})
	for native, want := range map[string][]string{
		"send_mail": {"mcp__p__send_mail", "mcp_p_send_mail"}, // send.mail claims these names as well
		"t":         {"mcp:p.t", "mcp__p__t", "mcp_p_t", "mcp_p_t_" + digest("a", "t")[:4], "t"},
		"mine":      {"mcp_q_mine"}, // mcp_p_old is now the name of another tool
		long:        {"mcp_p_" + cut},
	} {
		for _, tool := range table.List() {
			if tool.Server != "a" || tool.Native != native {
				continue
			}
			if diff := cmp.Diff(want, tool.Shared); diff != "" {
				t.Errorf("the names that a/%.20s lost (-want +got):\n%s", native, diff)
			}
			for _, name := range tool.Shared {
				if got, err := table.Find(name); err == nil && got.Server == "a" {
					t.Errorf("%s leads to a/%s", name, got.Native)
				}
			}
		}
	}
}

// A tool does not get digits that make its name equal to the name that two other tools
// claim: both had to give up that name, and it stays unused.
func TestADigestThatOthersAreNamedLike(t *testing.T) {
	sham := "t_" + digest("a", "t")[:4]
	table := built(t, Config{Servers: []Server{
		{Name: "a", Prefix: "p", Tools: []string{"t"}},
		{Name: "b", Prefix: "p", Tools: []string{"t"}},
		{Name: "c", Prefix: "p", Tools: []string{sham}},
		{Name: "d", Prefix: "p", Tools: []string{sham}},
	}})
	var several *AmbiguousError
	if _, err := table.Find("mcp_p_" + sham); !errors.As(err, &several) || len(several.Candidates) != 2 {
		t.Errorf("mcp_p_%s: got %v, want it to be ambiguous", sham, err)
	}
	for _, tool := range table.List() {
		leads(t, table, tool.Primary, tool.Server+"/"+tool.Native)
	}
}

func TestFilter(t *testing.T) {
	table := built(t, Config{Servers: []Server{{Name: "s", Tools: []string{"read", "write", "read_all", "reset"}, Filter: Filter{Allow: []string{"re*"}, Deny: []string{"*set", "read_?ll"}}}}})
	for name, want := range map[string]string{"read": "s/read", "write": "unknown", "mcp_s_write": "unknown", "reset": "unknown", "mcp:s.reset": "unknown", "mcp__s__read_all": "unknown"} {
		leads(t, table, name, want)
	}
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"?", "é", true},
		{"?", "", false},
		{"a*c", "abbbc", true},
		{"a*c", "abbb", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"a/b*", "a/b/c", true},
		{"[a]", "a", false},
		{"A", "a", false},
		{"**", "x", true},
		{strings.Repeat("a*", 300) + "b", strings.Repeat("a", 1000), false},
	} {
		if got := match(c.pattern, c.text); got != c.want {
			t.Errorf("match(%.20q, %.20q) = %v, want %v", c.pattern, c.text, got, c.want)
		}
	}
	if (Filter{Deny: []string{"x"}}).Passes("x") || !(Filter{}).Passes("x") || (Filter{Allow: []string{"x"}, Deny: []string{"x"}}).Passes("x") {
		t.Error("deny does not win, or the empty filter hides a name")
	}
}

func TestBounds(t *testing.T) {
	var many []string
	for i := range maxTools + 5 {
		many = append(many, fmt.Sprintf("t%05d", i))
	}
	table := built(t, Config{Servers: []Server{{Name: "s", Tools: many}, {Name: "u", Tools: []string{"x", "y", "x"}}}})
	if got := len(table.List()); got != maxTools+1 {
		t.Errorf("got %d tools, want %d", got, maxTools+1)
	}
	if got := len(table.Notices()); got != 2 {
		t.Errorf("got the notices %v, want one for the tools beyond the bound and one for the tool that is there twice", table.Notices())
	}
	for _, budget := range []int{1, minBudget - 1, maxBudget + 1, -1} {
		if _, err := Build(Config{Budget: budget}); err == nil {
			t.Errorf("a budget of %d characters was accepted", budget)
		}
	}
}

// longNames returns servers with 200 tools whose names are too long; many are equal up to
// their ends.
func longNames() []Server {
	servers := []Server{{Name: "cloud", Tools: nil}, {Name: "a-server-with-a-name-that-is-itself-rather-long", Tools: nil}}
	for i := range 100 {
		servers[0].Tools = append(servers[0].Tools, fmt.Sprintf("resource_manager_projects_locations_clusters_operation_number_%d", i))
		servers[1].Tools = append(servers[1].Tools, fmt.Sprintf("%s.describe:%d", strings.Repeat("nested.", i%12+3), i))
	}
	return servers
}

func TestLongNames(t *testing.T) {
	table := built(t, Config{Servers: longNames()})
	var out strings.Builder
	for _, tool := range table.List() {
		if len(tool.Primary) > DefaultBudget {
			t.Errorf("%q has %d characters, want at most %d", tool.Primary, len(tool.Primary), DefaultBudget)
		}
		fmt.Fprintf(&out, "%-50s %s %s\n", tool.Primary, tool.Server, tool.Native)
	}
	golden.Equal(t, "long_names.txt", out.String())
}

// random returns a few servers whose names often collide, some of them on purpose.
func random(r *rand.Rand) Config {
	words := []string{"a", "b", "a_b", "b_c", "a.b", "x:y", "read", "Read", "mcp", "mcp_a_b", "t", "_", "", "é", "a b", "bash", strings.Repeat("w", 60)}
	word := func() string {
		w := words[r.IntN(len(words))]
		switch r.IntN(6) {
		case 0:
			return w + "_" + words[r.IntN(len(words))]
		case 1:
			return w + "_" + digest(words[r.IntN(len(words))], words[r.IntN(len(words))])[:[]int{4, 6, 8}[r.IntN(3)]]
		}
		return w
	}
	cfg := Config{Own: []string{"Bash", "Read", "mcp_a_b"}[:r.IntN(4)], Budget: []int{0, 32, 40}[r.IntN(3)]}
	for i := range 1 + r.IntN(6) {
		s := Server{Name: words[r.IntN(8)] + strings.Repeat("s", i), Prefix: word()}
		for range r.IntN(12) {
			if tool := word(); !slices.Contains(s.Tools, tool) {
				s.Tools = append(s.Tools, tool)
			}
		}
		if r.IntN(3) == 0 {
			s.Filter.Deny = []string{word(), "*" + words[r.IntN(4)]}
		}
		cfg.Servers = append(cfg.Servers, s)
	}
	return cfg
}

// shuffled returns a configuration with servers and tools in another order.
func shuffled(r *rand.Rand, cfg Config) Config {
	cfg.Servers = slices.Clone(cfg.Servers)
	r.Shuffle(len(cfg.Servers), func(i, j int) { cfg.Servers[i], cfg.Servers[j] = cfg.Servers[j], cfg.Servers[i] })
	for i := range cfg.Servers {
		cfg.Servers[i].Tools = slices.Clone(cfg.Servers[i].Tools)
		r.Shuffle(len(cfg.Servers[i].Tools), func(a, b int) {
			tools := cfg.Servers[i].Tools
			tools[a], tools[b] = tools[b], tools[a]
		})
	}
	return cfg
}

// In every table, each tool has a name of its own, which leads to the tool and which every
// client accepts. No name leads to a tool that does not claim it. Our own names stay our
// own. The order of servers and tools has no effect.
func TestRandomSets(t *testing.T) {
	n, r := testenv.Cases(t, 1000)
	for range n {
		cfg := random(r)
		table := built(t, cfg)
		listed := make(map[string]Tool)
		there := make(map[string]bool)
		for _, tool := range table.List() {
			if _, twice := listed[tool.Primary]; twice {
				t.Errorf("%q is listed twice: %+v", tool.Primary, cfg)
			}
			listed[tool.Primary] = tool
			there[tool.Server+"/"+tool.Native] = true
			limit := cfg.Budget
			if limit == 0 {
				limit = DefaultBudget
			}
			if len(tool.Primary) > limit || tool.Primary != sanitised(tool.Primary) || !strings.HasPrefix(tool.Primary, "mcp_") || strings.HasPrefix(tool.Primary, "mcp__") {
				t.Errorf("%q is not a proper primary name: %+v", tool.Primary, cfg)
			}
			for _, name := range append(tool.Aliases, tool.Primary) {
				leads(t, table, name, tool.Server+"/"+tool.Native)
				if slices.Contains(cfg.Own, name) {
					t.Errorf("%q is our own, and leads to %s/%s", name, tool.Server, tool.Native)
				}
			}
		}
		for _, name := range cfg.Own {
			leads(t, table, name, "own")
		}
		prefixes := make(map[string]string)
		for _, s := range cfg.Servers {
			prefixes[s.Name] = s.prefix()
		}
		for _, tool := range table.List() {
			for _, name := range aliases(prefixes[tool.Server], sanitisedPrefix(prefixes[tool.Server]), tool.Native) {
				if _, others := listed[name]; !others && !table.isOwn(name) && !slices.Contains(tool.Aliases, name) && !slices.Contains(tool.Shared, name) {
					t.Errorf("%s/%s does not have the name %q: %+v", tool.Server, tool.Native, name, cfg)
				}
			}
		}
		for _, s := range cfg.Servers {
			for _, native := range s.Tools {
				hidden := !s.Filter.Passes(native) || unusable(native) != "" || sanitisedPrefix(s.prefix()) == ""
				if hidden == there[s.Name+"/"+native] {
					t.Errorf("%s/%q is in the table: %v, want %v; %+v", s.Name, native, !hidden, there[s.Name+"/"+native], cfg)
				}
				// A short name leads to a tool of that name or to no tool.
				tool, err := table.Find(native)
				if err == nil && tool.Native != native && tool.Primary != native && !slices.Contains(tool.Aliases, native) {
					t.Errorf("%q leads to %s/%s: %+v", native, tool.Server, tool.Native, cfg)
				}
				// A short name that two tools have leads to no tool.
				if err == nil && tool.Native == native && tool.Primary != native {
					for _, other := range table.List() {
						if other.Native == native && other.Server != tool.Server {
							t.Errorf("%q leads to %s, and %s has such a tool too: %+v", native, tool.Server, other.Server, cfg)
						}
					}
				}
			}
		}
		again := built(t, shuffled(r, cfg))
		if diff := cmp.Diff(table.List(), again.List()); diff != "" {
			t.Errorf("in another order (-first +second):\n%s%+v", diff, cfg)
		}
		if diff := cmp.Diff(table.Notices(), again.Notices()); diff != "" {
			t.Errorf("the notices in another order (-first +second):\n%s", diff)
		}
		if t.Failed() {
			return
		}
	}
}

// prefix returns the prefix of a server before it is sanitised.
func (s Server) prefix() string {
	if s.Prefix == "" {
		return s.Name
	}
	return s.Prefix
}
