package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// library is a toy with resources and prompts. doc://N are listed, secret://X
// is decided by the gate.
func library(t testing.TB, docs int, change ...func(*mcp.Config)) *toy {
	t.Helper()
	ty := newToy(t, change...)
	uri := func(i int) string { return fmt.Sprintf("doc://%05d", i) }
	ty.AddResource(mcp.Resource{
		Template: "doc://{n}", Name: "doc", Title: "A document", MIME: "text/plain",
		List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
			var all []mcp.Entry
			for i := docs; i > 0; i-- {
				all = append(all, mcp.Entry{URI: uri(i), Name: fmt.Sprint("doc ", i), MIME: "text/plain", Size: 3})
			}
			return all, nil
		},
		Read: func(_ context.Context, _ *mcp.Session, uri string) ([]byte, string, error) {
			return []byte(uri), "", nil
		},
		Complete: func(_ context.Context, _ *mcp.Session, variable, typed string) ([]string, error) {
			if variable != "n" {
				return nil, nil
			}
			var all []string
			for i := range docs {
				all = append(all, fmt.Sprintf("%05d", i+1))
			}
			return mcp.Completed(all, typed), nil
		},
	})
	ty.AddResource(mcp.Resource{
		Template: "secret://{+text}", Name: "secret", MIME: "application/octet-stream",
		Facts: func(uri string) (policies.Facts, error) {
			return policies.Facts{Tool: "echo", Command: strings.TrimPrefix(uri, "secret://")}, nil
		},
		ReadGranted: func(_ context.Context, call mcp.Call, uri string) ([]byte, string, error) {
			return []byte{0xff, 0}, "", nil
		},
	})
	ty.AddPrompts(mcp.PromptSource{
		List: func(context.Context, *mcp.Session) ([]mcp.Prompt, error) {
			return []mcp.Prompt{
				{Name: "write", Title: "Write", Arguments: []mcp.Argument{{Name: "about", Required: true}, {Name: "tone"}}},
				{Name: "greet", Description: "says hello"},
			}, nil
		},
		Get: func(_ context.Context, s *mcp.Session, name string, args map[string]string) ([]mcp.Message, error) {
			return []mcp.Message{
				{Content: mcp.Content{Text: name + " " + args["about"] + args["tone"]}},
				{Role: "assistant", Content: mcp.Content{URI: "doc://00001"}},
			}, nil
		},
		Complete: func(_ context.Context, _ *mcp.Session, name, argument, typed string) ([]string, error) {
			return mcp.Completed([]string{"Alps", "alder", "beech"}, typed), nil
		},
	})
	return ty
}

// ask sends a request and returns its result, or its error as "code message".
func (c *client) ask(method, params string) string {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	a := c.next()
	if a.Error != nil {
		return fmt.Sprintf("%d %s", a.Error.Code, a.Error.Message)
	}
	return string(a.Result)
}

// W19, W20: resources/list, resources/read, prompts/list, prompts/get and the shapes of
// their results; C19: resources/search; C6, X3: what is served is advertised; C8: a missing
// resource has the error code of the revision.
func TestResourcesAndPrompts(t *testing.T) {
	c := library(t, 3).connect(t)
	hi := c.greet(revLegacy)
	for _, want := range []string{
		`"resources":{"listChanged":true,"subscribe":true}`, `"prompts":{"listChanged":true}`,
		`"completions":{}`, `"tools":{"listChanged":true}`, `"experimental":{"belljar.dev/structured":{},"resources/search":{}}`,
	} {
		if !strings.Contains(hi.raw, want) {
			t.Errorf("initialize: got %s, want %s in it", hi.raw, want)
		}
	}
	doc := func(n int) string {
		return fmt.Sprintf(`{"mimeType":"text/plain","name":"doc %d","size":3,"uri":"doc://0000%d"}`, n, n)
	}
	for _, tt := range []struct{ name, method, params, want string }{
		{"list", "resources/list", `{}`, `"resources":[` + doc(1) + "," + doc(2) + "," + doc(3) + `]}`},
		{"templates", "resources/templates/list", `{}`, `"resourceTemplates":[{"mimeType":"text/plain","name":"doc","title":"A document","uriTemplate":"doc://{n}"},{"mimeType":"text/plain","name":"note","uriTemplate":"note://{id}"},{"mimeType":"application/octet-stream","name":"secret","uriTemplate":"secret://{+text}"}]`},
		{"read", "resources/read", `{"uri":"doc://2"}`, `"contents":[{"uri":"doc://2","mimeType":"text/plain","text":"doc://2"}]`},
		{"read bytes", "resources/read", `{"uri":"secret://a"}`, `"blob":"/wA="`},
		{"read what the policy forbids", "resources/read", `{"uri":"secret://forbidden"}`, "-32600 DENIED by policy rule no-forbidden"},
		{"read nothing", "resources/read", `{"uri":"note://8"}`, "-32002 "},
		{"read another scheme", "resources/read", `{"uri":"file:///etc/passwd"}`, "-32002 "},
		{"search", "resources/search", `{"query":"DOC 2"}`, `{"resources":[` + doc(2) + `]}`},
		{"search nothing", "resources/search", `{}`, "-32602 query: got 0 bytes, want 1 to 1000"},
		{"bad cursor", "resources/list", `{"cursor":"!"}`, "-32602 cursor: "},
		{"prompts", "prompts/list", `{}`, `"prompts":[{"description":"says hello","name":"greet"},{"arguments":[{"name":"about","required":true},{"name":"tone"}],"name":"write","title":"Write"}]`},
		{"prompt", "prompts/get", `{"name":"write","arguments":{"about":"trees"}}`, `"messages":[{"content":{"type":"text","text":"write trees"},"role":"user"},{"content":{"type":"resource_link","uri":"doc://00001","name":"doc://00001"},"role":"assistant"}]`},
		{"prompt without its argument", "prompts/get", `{"name":"write"}`, `-32602 prompt write: the argument "about" is missing`},
		{"prompt with another argument", "prompts/get", `{"name":"greet","arguments":{"who":"me"}}`, `-32602 prompt greet: unknown argument "who"`},
		{"unknown prompt", "prompts/get", `{"name":"wrote"}`, `-32602 unknown prompt "wrote"; did you mean "write"?`},
		{"the sdk's own prompt", "prompts/get", `{"name":"belljar.dev/none"}`, `-32602 unknown prompt`},
		{"complete a prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"write"},"argument":{"name":"about","value":"al"}}`, `{"completion":{"total":2,"values":["Alps","alder"]}}`},
		{"complete a template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"doc://{n}"},"argument":{"name":"n","value":"00003"}}`, `{"completion":{"total":1,"values":["00003"]}}`},
		{"complete nothing", "completion/complete", `{"ref":{"type":"ref/resource","uri":"note://{id}"},"argument":{"name":"id","value":""}}`, `{"completion":{"values":[]}}`},
		{"complete of nothing", "completion/complete", `{"ref":{"type":"ref/resource","uri":"x://"},"argument":{"name":"id","value":""}}`, `-32602 unknown resource template "x://"`},
		{"complete something else", "completion/complete", `{"ref":{"type":"ref/tool","name":"x"},"argument":{"name":"id","value":""}}`, `-32602 `},
	} {
		if got := c.ask(tt.method, tt.params); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s in it", tt.name, got, tt.want)
		}
	}
}

func TestPages(t *testing.T) {
	c := library(t, 450).connect(t)
	c.greet(revLegacy)
	var seen []string
	for cursor := ""; ; {
		var r struct {
			Resources []struct {
				URI string `json:"uri"`
			} `json:"resources"`
			NextCursor string `json:"nextCursor"`
		}
		text := c.ask("resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor))
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, e := range r.Resources {
			seen = append(seen, e.URI)
		}
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 450 || seen[0] != "doc://00001" || seen[449] != "doc://00450" {
		t.Errorf("all pages: got %d entries, first %s", len(seen), seen[0])
	}
	got := c.ask("completion/complete", `{"ref":{"type":"ref/resource","uri":"doc://{n}"},"argument":{"name":"n","value":""}}`)
	if !strings.Contains(got, `"hasMore":true,"total":450`) || strings.Count(got, `"00`) != 100 {
		t.Errorf("complete: got %s, want 100 of 450 values", got)
	}
}

// C22: A client gets notifications while calls run, also about resources, but not about
// resources of other sessions.
func TestSubscriptions(t *testing.T) {
	opened := make(chan *mcp.Session, 4)
	ty := library(t, 1, func(c *mcp.Config) {
		c.OnSession = func(_ context.Context, s *mcp.Session) { opened <- s }
	})
	a, b := ty.connect(t), ty.connect(t)
	a.greet(revLegacy)
	b.greet(revLegacy)
	first, second := <-opened, <-opened
	for _, c := range []*client{a, b} {
		if got := c.ask("resources/subscribe", `{"uri":"doc://1"}`); got != "{}" {
			t.Fatalf("subscribe: %s", got)
		}
	}
	first.Updated("doc://2") // no client subscribed to this URI
	first.Updated("doc://1")
	second.Updated("doc://1")
	const want = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://1"}}`
	for _, c := range []*client{a, b} {
		if got := c.next().raw; got != want {
			t.Errorf("news: got %s, want %s", got, want)
		}
		if got := c.ask("ping", `{}`); got != "{}" {
			t.Errorf("more news: %s", got)
		}
	}
	ty.Updated("local", "doc://1")
	ty.Updated("other", "doc://1")
	for _, c := range []*client{a, b} {
		if got := c.next().raw; got != want {
			t.Errorf("news for a tenant: got %s, want %s", got, want)
		}
		if got := c.ask("resources/unsubscribe", `{"uri":"doc://1"}`); got != "{}" {
			t.Errorf("unsubscribe: %s", got)
		}
	}
	ty.Updated("local", "doc://1")
	ty.PromptsChanged()
	ty.ResourcesChanged()
	for _, c := range []*client{a, b} {
		got := c.next().Method + " " + c.next().Method
		if !strings.Contains(got, "prompts/list_changed") || !strings.Contains(got, "resources/list_changed") {
			t.Errorf("changed lists: got %s", got)
		}
	}
	for i := range 128 {
		a.ask("resources/subscribe", fmt.Sprintf(`{"uri":"doc://%d"}`, i))
	}
	if got := a.ask("resources/subscribe", `{"uri":"doc://x"}`); !strings.HasPrefix(got, "-32602 subscribe to doc://x: 128 resources are watched already") {
		t.Errorf("one more subscription: %s", got)
	}
}

// In the modern era a client sends a listen request, and notifications carry that request's
// id.
func TestListen(t *testing.T) {
	opened := make(chan *mcp.Session, 4)
	ty := library(t, 1, func(c *mcp.Config) {
		c.OnSession = func(_ context.Context, s *mcp.Session) { opened <- s }
	})
	c := ty.connect(t)
	c.send(modern(`"mine"`, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["doc://1"],"promptsListChanged":true},`))
	if got := c.next(); got.Method != "notifications/subscriptions/acknowledged" || !strings.Contains(got.raw, `"resourceSubscriptions":["doc://1"]`) {
		t.Fatalf("listen: %s", got.raw)
	}
	session := <-opened
	session.Updated("doc://1")
	if got := c.next().raw; !strings.Contains(got, `"method":"notifications/resources/updated"`) || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"mine"`) || strings.Contains(got, "belljar.dev") {
		t.Errorf("news: %s", got)
	}
}

// The contents of an empty resource have a text or a blob too, in both eras: clients throw
// an error if both are missing.
func TestEmptyResources(t *testing.T) {
	site := newSite(t)
	for template, mime := range map[string]string{"empty://{n}": "text/plain", "void://{n}": "image/png"} {
		site.AddResource(mcp.Resource{
			Template: template, Name: "empty", MIME: mime,
			Read: func(context.Context, *mcp.Session, string) ([]byte, string, error) { return nil, "", nil },
		})
	}
	old, young := site.connect(t), site.connect(t)
	old.greet(revLegacy)
	headers := site.greet()
	for _, tt := range []struct{ uri, want string }{
		{"empty://1", `"contents":[{"uri":"empty://1","mimeType":"text/plain","text":""}]`},
		{"void://1", `"contents":[{"uri":"void://1","mimeType":"image/png","blob":""}]`},
		{"note://7", `"contents":[{"uri":"note://7","mimeType":"text/plain","text":"seven"}]`},
	} {
		params := fmt.Sprintf(`"uri":%q`, tt.uri)
		oldLine := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{%s}}`, params)
		youngLine := modern("1", "resources/read", params+",")
		old.send(oldLine)
		young.send(youngLine)
		for way, raw := range map[string]string{
			"stdio, 2025-11-25": old.next().raw, "stdio, 2026-07-28": young.next().raw,
			"HTTP, 2025-11-25": site.do("POST", oldLine, headers...).last().raw,
			"HTTP, 2026-07-28": site.do("POST", youngLine, modernHeaders("resources/read", tt.uri)...).last().raw,
		} {
			if !strings.Contains(raw, tt.want) || strings.Contains(way, "2026") != strings.Contains(raw, `"resultType":"complete"`) {
				t.Errorf("%s: %s: got %s, want %s in it, and resultType in 2026-07-28", way, tt.uri, raw, tt.want)
			}
		}
	}
}
