package engine

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// addBodies seeds f with bodies of every form of answer.
func addBodies(f *testing.F) {
	all, err := load(f).ExamineOwn()
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range all {
		text, err := own.ReadFile("testdata/bodies/" + e.File)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, 200, e.Engine)
	}
	f.Add([]byte("<a href=\"&#1"), 0, "bing")
	f.Add([]byte("<!--<![CDATA[</<p/=''=\"><svg><title></svg>"), 0, "bing")
	f.Add([]byte(strings.Repeat("<div>", 3000)), 0, "google")
	f.Add([]byte(strings.Repeat("[", 20000)), 0, "github")
}

// FuzzParse checks that Parse is consistent for any body: there are results with title and
// address if the outcome is OK, and no results otherwise.
func FuzzParse(f *testing.F) {
	addBodies(f)
	engines := load(f)
	f.Fuzz(func(t *testing.T, body []byte, status int, name string) {
		if e := engines.Find(name); e != nil {
			p := e.Parse(Response{Status: status, Body: body})
			if (p.Outcome == OK) != (len(p.Hits) > 0) || p.Outcome == None {
				t.Fatalf("%s: %s with %d results", e.Name, p.Outcome, len(p.Hits))
			}
			if p.Detail == "its answer could not be read" {
				t.Fatalf("%s panics", e.Name)
			}
			for i, h := range p.Hits {
				u, err := url.Parse(h.URL)
				if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
					t.Fatalf("%s: result %d leads to %q", e.Name, i, h.URL)
				}
				if h.Title == "" || h.Rank != i+1 || !utf8.ValidString(h.Title+h.Snippet) || len(h.Title) > maxTitle || len(h.Snippet) > maxSnippet {
					t.Fatalf("%s: result %d is %+v", e.Name, i, h)
				}
			}
		}
	})
}

// FuzzGrow checks that the nodes of a tree are linked correctly, and that the tree is not
// deeper or larger than its bounds.
func FuzzGrow(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte, kind int, _ string) {
		p := grow(string(body), kind%2 == 1)
		nodes := 0
		var walk func(n *html.Node, depth int)
		walk = func(n *html.Node, depth int) {
			nodes++
			if depth > maxDepth+1 {
				t.Fatalf("a node is %d deep", depth)
			}
			var last *html.Node
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				if c.Parent != n || c.PrevSibling != last {
					t.Fatal("a node is not where its neighbours say")
				}
				walk(c, depth+1)
				last = c
			}
			if n.LastChild != last {
				t.Fatal("the last node is not the last")
			}
		}
		walk(p.top, 0)
		if nodes > maxNodes+1 {
			t.Fatalf("%d nodes", nodes)
		}
	})
}

// FuzzEngineFile checks that a file gives an engine or a list of faults, and never panics.
func FuzzEngineFile(f *testing.F) {
	entries, err := bundled.ReadDir("engines")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		text, err := bundled.ReadFile("engines/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := compile("", []source{{name: "x.yaml", short: "x.yaml", text: text}})
		if err != nil {
			_ = err.Error()
			return
		}
		for _, e := range s.All() {
			e.Parse(Response{Body: []byte("<p>x")})
			if x, err := e.Exchange(Query{Text: "words"}, Keys{e.NeedsKey: "k", e.NeedsURL: "https://a.example/"}); err == nil {
				for more := true; more; x.Answer(Response{}) {
					var req Request
					if req, more = x.Next(); more {
						if u, err := url.Parse(req.URL); err == nil && u.Hostname() != "" && !e.Allows(u.Hostname(), Keys{e.NeedsURL: "https://a.example/"}) {
							t.Fatalf("%s is asked at %s", e.Name, req.URL)
						}
					}
				}
			}
		}
	})
}
