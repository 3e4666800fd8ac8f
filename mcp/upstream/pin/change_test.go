package pin

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"golang.org/x/text/unicode/norm"
)

const (
	readFile = `{"name":"read_file","title":"Read a file","description":"Read the contents of a file. Only within the directories that are allowed.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Path of the file, for example /data/résumé.txt"},"head":{"type":"integer","minimum":1,"maximum":9007199254740992,"default":10},"mode":{"type":"string","enum":["text","base64"]}},"required":["path","mode"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]},"annotations":{"title":"Read","readOnlyHint":true,"destructiveHint":false},"icons":[{"src":"https://example.com/a.png","mimeType":"image/png","sizes":["48x48"]}],"_meta":{"example.com/tag":"a","example.com/n":1.5},"execution":{"taskSupport":"forbidden"},"x-unknown":[1,2,{"deep":null}]}`
	search   = `{"name":"search","description":"Search the index 🔎.","inputSchema":{"type":"object","properties":{"q":{"type":"string"},"limit":{"type":"number","default":0.5}}}}`
	noop     = `{"name":"noop","inputSchema":{"type":"object"}}`
	prompt   = `{"name":"review","title":"Review","description":"Review a change.","arguments":[{"name":"diff","description":"The change","required":true}]}`
	template = `{"uriTemplate":"file:///{path}","name":"files","description":"Any file","mimeType":"text/plain"}`
)

// base returns the offer of the server of these tests.
func base() Offer {
	return Offer{
		Runs: Runs{Command: []string{"npx", "-y", "@example/files@1.2.3", "/data"}, Env: []string{"LANG=C", "TOKEN=${secret:files}"}, File: "sha256:11", Lock: "sha512-" + strings.Repeat("Zx7Q", 21) + "==", Image: "sha256:22", URL: "https://mcp.example/mcp", SPKI: "sha256:33"},
		Listing: &Listing{
			Server: "files", Instructions: "Paths are absolute.\nAsk before you delete.",
			Tools: []json.RawMessage{json.RawMessage(readFile), json.RawMessage(search), json.RawMessage(noop)}, Prompts: []json.RawMessage{json.RawMessage(prompt)}, Templates: []json.RawMessage{json.RawMessage(template)},
		},
	}
}

// trusted returns the record of an offer after first use.
func trusted(t *testing.T, o Offer) record {
	t.Helper()
	all, _ := takeApart(o)
	r := recordOf(nil)
	v, added := judge("s", Rules{Mode: TOFU}, r, all, o.Listing != nil, someDay)
	if v.Held != "" {
		t.Fatalf("the server is held at first contact: %s", v.Held)
	}
	for _, item := range v.Items {
		if item.State != Pinned || item.Why != "" {
			t.Fatalf("%s %s at first contact: %s, %s", item.Kind, item.Name, item.State, item.Why)
		}
	}
	return recordOf(added)
}

// differences returns the definitions that differ from what the record trusts.
func differences(r record, o Offer) (all []string) {
	parts, _ := takeApart(o)
	v, _ := judge("s", Rules{Mode: TOFU}, r, parts, o.Listing != nil, someDay)
	for _, item := range v.Items {
		offered, ok := v.Offered(item.Kind, item.Name)
		switch {
		case item.State == Pinned && (!ok || offered.Why != ""), item.State != Pinned && ok:
			all = append(all, fmt.Sprintf("%s %s is %s and offered: %v", item.Kind, item.Name, item.State, ok))
		case item.State == Held && item.Why == v.Held: // held because the whole server is held
		case item.State != Pinned:
			all = append(all, string(item.Kind)+" "+item.Name+" "+string(item.State))
		}
	}
	slices.Sort(all)
	return all
}

// edit replaces a part of a text, which must contain that part once.
func edit(t *testing.T, text *json.RawMessage, old, now string) {
	t.Helper()
	if strings.Count(string(*text), old) != 1 {
		t.Fatalf("%q is %d times in %s, want once", old, strings.Count(string(*text), old), *text)
	}
	*text = json.RawMessage(strings.Replace(string(*text), old, now, 1))
}

// Each change of a text that a model reads, or of what runs, is found, and nothing else is
// affected.
func TestChangesAreFound(t *testing.T) {
	type change struct {
		what string
		make func(t *testing.T, o *Offer)
		want string
	}
	var changes []change
	tool := func(what, old, now string) {
		changes = append(changes, change{what, func(t *testing.T, o *Offer) { edit(t, &o.Listing.Tools[0], old, now) }, "tool read_file changed"})
	}
	tool("a space more", "contents of", "contents  of")
	tool("a space at the end", "allowed.\"", "allowed. \"")
	tool("a line end at the end", "allowed.\"", "allowed.\\n\"")
	tool("a homoglyph", "Read the contents", "Reаd the contents")
	tool("a capital letter", "Only within", "only within")
	tool("a hidden space", "file. Only", "file.\u200b Only")
	tool("a tag character", "file. Only", "file.\U000e0041 Only")
	tool("a hidden space, escaped", "file. Only", `file.\u200b Only`)
	tool("a change of direction", "file. Only", "file. \u202eOnly")
	tool("another kind of space", "the contents", "the\u00a0contents")
	tool("a compatible letter", "file. Only", "ﬁle. Only")
	tool("a variation selector", "résumé", "résumé\ufe0f")
	tool("a letter without its accent", "résumé", "resumé")
	tool("a description of a parameter", "Path of the file", "Path of any file")
	tool("an optional parameter", `"head":{`, `"notes":{"type":"string"},"head":{`)
	tool("a parameter less", `"mode":{"type":"string","enum":["text","base64"]}`, `"x":{"type":"string","enum":["text","base64"]}`)
	tool("the type of a parameter", `"head":{"type":"integer"`, `"head":{"type":"number"`)
	tool("a default", `"default":10`, `"default":11`)
	tool("a number as a text", `"default":10`, `"default":"10"`)
	tool("the last digit of a large number", "9007199254740992", "9007199254740993")
	tool("a digit behind those of a double", "1.5}", "1.50000000000000000001}")
	tool("the sign of a number", `"minimum":1`, `"minimum":-1`)
	tool("the exponent of a number", `"minimum":1`, `"minimum":1e1`)
	tool("another value of an enum", `["text","base64"]`, `["text","base64","raw"]`)
	tool("the order of an enum", `["text","base64"]`, `["base64","text"]`)
	tool("a parameter that is no longer required", `["path","mode"]`, `["path"]`)
	tool("the order of required parameters", `["path","mode"]`, `["mode","path"]`)
	tool("further parameters allowed", `"additionalProperties":false`, `"additionalProperties":true`)
	tool("further parameters not forbidden", `,"additionalProperties":false`, ``)
	tool("false to null", `"additionalProperties":false`, `"additionalProperties":null`)
	tool("a result less", `"required":["content"]`, `"required":[]`)
	tool("the type of a result", `"content":{"type":"string"}`, `"content":{"type":"object"}`)
	tool("no output schema", `"outputSchema":`, `"x-outputSchema":`)
	tool("the title", `"title":"Read a file"`, `"title":"Read any file"`)
	tool("an annotation", `"destructiveHint":false`, `"destructiveHint":true`)
	tool("an annotation less", `,"destructiveHint":false`, ``)
	tool("the title in the annotations", `"annotations":{"title":"Read"`, `"annotations":{"title":"read"`)
	tool("an icon", "a.png", "b.png")
	tool("the size of an icon", "48x48", "64x64")
	tool("a member of _meta", `"example.com/tag":"a"`, `"example.com/tag":"b"`)
	tool("a name in _meta", `"example.com/tag":`, `"example.com/Tag":`)
	tool("execution", `"forbidden"`, `"required"`)
	tool("an unknown member", `{"deep":null}`, `{"deep":{}}`)
	tool("an unknown member more", `"x-unknown":`, `"x-more":"","x-unknown":`)
	tool("an element more", `[1,2,`, `[1,2,2,`)
	tool("true as a text", `"readOnlyHint":true`, `"readOnlyHint":"true"`)

	add := func(what, want string, f func(t *testing.T, o *Offer)) {
		changes = append(changes, change{what, f, want})
	}
	add("a name", "tool Search new, tool search removed", func(t *testing.T, o *Offer) { edit(t, &o.Listing.Tools[1], `"search"`, `"Search"`) })
	add("a tool more", "tool extra new", func(_ *testing.T, o *Offer) {
		o.Listing.Tools = append(o.Listing.Tools, json.RawMessage(`{"name":"extra","inputSchema":{"type":"object"}}`))
	})
	add("a tool less", "tool noop removed", func(_ *testing.T, o *Offer) { o.Listing.Tools = o.Listing.Tools[:2] })
	add("a tool twice", "tool noop held, tool noop held", func(_ *testing.T, o *Offer) {
		o.Listing.Tools = append(o.Listing.Tools, json.RawMessage(`{"name":"noop","description":"x","inputSchema":{"type":"object"}}`))
	})
	add("a tool that is a prompt now", "prompt noop new, tool noop removed", func(_ *testing.T, o *Offer) {
		o.Listing.Prompts, o.Listing.Tools = append(o.Listing.Prompts, o.Listing.Tools[2]), o.Listing.Tools[:2]
	})
	add("a description where there was none", "tool noop changed", func(t *testing.T, o *Offer) { edit(t, &o.Listing.Tools[2], `"noop",`, `"noop","description":"",`) })
	add("the text of a prompt", "prompt review changed", func(t *testing.T, o *Offer) { edit(t, &o.Listing.Prompts[0], "a change", "any change") })
	add("an argument of a prompt", "prompt review changed", func(t *testing.T, o *Offer) { edit(t, &o.Listing.Prompts[0], `"required":true`, `"required":false`) })
	add("a prompt more", "prompt x new", func(_ *testing.T, o *Offer) {
		o.Listing.Prompts = append(o.Listing.Prompts, json.RawMessage(`{"name":"x"}`))
	})
	add("the address of a template", "template file:///etc/{path} new, template file:///{path} removed", func(t *testing.T, o *Offer) { edit(t, &o.Listing.Templates[0], "file:///", "file:///etc/") })
	add("the type of a template", "template file:///{path} changed", func(t *testing.T, o *Offer) { edit(t, &o.Listing.Templates[0], "text/plain", "text/html") })
	add("the instructions", "instructions  changed", func(_ *testing.T, o *Offer) { o.Listing.Instructions += " " })
	add("a line of the instructions", "instructions  changed", func(_ *testing.T, o *Offer) {
		o.Listing.Instructions = strings.Replace(o.Listing.Instructions, "Ask", "Don't ask", 1)
	})
	add("the server's name", "server  changed", func(_ *testing.T, o *Offer) { o.Listing.Server = "Files" })
	runs := func(what string, f func(r *Runs)) {
		add(what, "runs  changed", func(_ *testing.T, o *Offer) { f(&o.Runs) })
	}
	runs("the command", func(r *Runs) { r.Command[0] = "sh" })
	runs("the version of a package", func(r *Runs) { r.Command[2] = "@example/files@1.2.4" })
	runs("an argument more", func(r *Runs) { r.Command = append(r.Command, "--all") })
	runs("where an argument ends", func(r *Runs) { r.Command[2], r.Command[3] = "@example/files@1.2.3 /data", "" })
	runs("a variable", func(r *Runs) { r.Env = append(r.Env, "NODE_OPTIONS=--require ./x") })
	runs("the program's file", func(r *Runs) { r.File = "sha256:12" })
	runs("the lock", func(r *Runs) { r.Lock = "sha512-ab" })
	runs("the image", func(r *Runs) { r.Image = "sha256:23" })
	runs("the address", func(r *Runs) { r.URL = "https://mcp.example.org/mcp" })
	runs("the key of the address", func(r *Runs) { r.SPKI = "" })

	if len(changes) < 60 {
		t.Errorf("there are %d changes, want 60", len(changes))
	}
	r := trusted(t, base())
	for _, c := range changes {
		o := base()
		o.Runs.Command = slices.Clone(o.Runs.Command)
		c.make(t, &o)
		if got := strings.Join(differences(r, o), ", "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
	if got := differences(r, base()); got != nil {
		t.Errorf("nothing changed: got %q", got)
	}
}

// A text that is trusted as one kind of definition is not trusted as another.
func TestKindsAreApart(t *testing.T) {
	digests := make(map[Digest]Kind)
	for _, kind := range []Kind{KindTool, KindPrompt, KindTemplate} {
		d := ofDefinition(new(canon), kind, "name", json.RawMessage(noop))
		if other, there := digests[d.digest]; there {
			t.Errorf("a %s has the digest of a %s", kind, other)
		}
		digests[d.digest] = kind
	}
}

// each changes all definitions of an offer.
func each(o *Offer, f func(text string) string) {
	for _, list := range [][]json.RawMessage{o.Listing.Tools, o.Listing.Prompts, o.Listing.Templates} {
		for i := range list {
			list[i] = json.RawMessage(f(string(list[i])))
		}
	}
}

// respelled returns a definition as encoding/json writes it, with sorted members.
func respelled(text string, indent string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	raw, err := json.MarshalIndent(v, "", indent)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Two texts with the same meaning do not count as a change.
func TestHarmlessChanges(t *testing.T) {
	replaced := func(old, now string) func(o *Offer) {
		return func(o *Offer) {
			found := false
			each(o, func(text string) string {
				found = found || strings.Contains(text, old)
				return strings.ReplaceAll(text, old, now)
			})
			if !found {
				t.Errorf("no definition has %q", old)
			}
		}
	}
	changes := map[string]func(o *Offer){
		"members sorted":          func(o *Offer) { each(o, func(text string) string { return respelled(text, "") }) },
		"indented":                func(o *Offer) { each(o, func(text string) string { return respelled(text, "    ") }) },
		"tools in another order":  func(o *Offer) { slices.Reverse(o.Listing.Tools) },
		"space around":            func(o *Offer) { each(o, func(text string) string { return " \r\n\t" + text + "\n" }) },
		"space behind colons":     replaced(`":`, "\" :\t"),
		"line ends behind commas": replaced(`,"`, ",\r\n\""),
		"normal form D":           func(o *Offer) { each(o, norm.NFD.String) },
		"escaped accents":         replaced("é", `\u00e9`),
		"escaped combining marks": replaced("é", `e\u0301`),
		"escaped emoji":           replaced("🔎", `\ud83d\udd0e`),
		"escapes in capitals":     replaced("é", `\u00E9`),
		"escaped solidus":         replaced("/", `\/`),
		"escaped letters":         replaced(`"name":"`, `"n\u0061me":"`),
		"1 as 1.0":                replaced(`"minimum":1,`, `"minimum":1.0,`),
		"10 as 1e1":               replaced(`"default":10`, `"default":1e1`),
		"10 as 100E-1":            replaced(`"default":10`, `"default":100E-1`),
		"0.5 as 5e-1":             replaced(`"default":0.5`, `"default":5e-1`),
		"1.5 as 1.50":             replaced(`1.5}`, `1.50}`),
		"a large number as 0.9e":  replaced("9007199254740992", "0.9007199254740992e+16"),
		"instructions in form D":  func(o *Offer) { o.Listing.Instructions = norm.NFD.String(o.Listing.Instructions) },
		"members in reverse":      func(o *Offer) { each(o, reversed) },
	}
	if len(changes) < 20 {
		t.Errorf("there are %d harmless changes, want 20", len(changes))
	}
	r := trusted(t, base())
	for what, change := range changes {
		o := base()
		change(&o)
		if got := differences(r, o); got != nil {
			t.Errorf("%s: got %q, want no difference", what, got)
		}
	}
}

// reversed returns an object with its members in reverse order.
func reversed(text string) string {
	var members []string
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		panic(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			panic(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			panic(err)
		}
		members = append(members, fmt.Sprintf("%q:%s", name, value))
	}
	slices.Reverse(members)
	return "{" + strings.Join(members, ",") + "}"
}

// A definition in another spelling counts as the same. A definition in which any value was
// changed does not, whatever else it contains.
func TestRandomChanges(t *testing.T) {
	n, r := testenv.Cases(t, 300)
	offer := func(definition string) Offer {
		o := base()
		o.Listing.Tools = append(o.Listing.Tools, json.RawMessage(definition))
		return o
	}
	for range n {
		v := map[string]any{"name": "made", "a": tree(r, 3), "b": tree(r, 3)}
		// The scan may ask about a text like "\u200b", so a person trusts everything first.
		kept := everything(offer(spelled(r, v)))
		again := spelled(r, v)
		if got := differences(kept, offer(again)); got != nil {
			t.Fatalf("%s spelled as %s: got %q", fmt.Sprint(v), again, got)
		}
		changed := map[string]any{"name": "made", "a": v["a"], "b": v["b"]}
		member := []string{"a", "b"}[r.IntN(2)]
		changed[member] = altered(r, v[member])
		other := spelled(r, changed)
		if got := strings.Join(differences(kept, offer(other)), ", "); got != "tool made changed" {
			t.Fatalf("%s changed to %s: got %q", fmt.Sprint(v), other, got)
		}
	}
}

// everything returns a record that trusts all of an offer.
func everything(o Offer) record {
	all, _ := takeApart(o)
	return trustedBy(all)
}

func trustedBy(all []served) record {
	r := recordOf(nil)
	for _, d := range all {
		r.trusted[d.key] = Pin{"s", d.kind, d.name, d.digest, someDay, Decided}
	}
	return r
}

// altered returns a value that differs from v in one place.
func altered(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		switch {
		case len(names) == 0 || r.IntN(3) == 0:
			out["new"] = nil
		case r.IntN(2) == 0:
			delete(out, names[r.IntN(len(names))])
		default:
			name := names[r.IntN(len(names))]
			out[name] = altered(r, v[name])
		}
		return out
	case []any:
		if len(v) == 0 || r.IntN(3) == 0 {
			return append(slices.Clone(v), "new")
		}
		out := slices.Clone(v)
		i := r.IntN(len(out))
		out[i] = altered(r, out[i])
		return out
	case json.Number:
		if v == "0" {
			return json.Number("7")
		}
		return json.Number(string(v) + "1")
	case string:
		return v + []string{" ", "x", "\u200b", "\n", "\U000e0061", "é"}[r.IntN(6)]
	case bool:
		return !v
	default:
		return false
	}
}
