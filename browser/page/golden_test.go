package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
)

// TestGolden converts the pages in testdata, and compares front matter, table of contents
// and content with the .golden file of each page.
func TestGolden(t *testing.T) {
	for name, o := range map[string]Options{
		"article.html":        {ContentType: "text/html"},
		"documentation.html":  {ContentType: "text/html"},
		"math.html":           {ContentType: "text/html"},
		"tables.html":         {ContentType: "text/html"},
		"rtl.html":            {ContentType: "text/html; charset=utf-8"},
		"rss.xml":             {ContentType: "application/rss+xml"},
		"atom.xml":            {ContentType: "application/xml"},
		"feed.json":           {ContentType: "application/json"},
		"data.json":           {ContentType: "application/json"},
		"config.xml":          {ContentType: "text/xml"},
		"notes.md.txt":        {ContentType: "text/markdown"},
		"small.pdf":           {},
		"kind-forum.html":     {ContentType: "text/html"},
		"kind-wiki.html":      {ContentType: "text/html"},
		"kind-shop.html":      {ContentType: "text/html"},
		"kind-api.html":       {ContentType: "text/html"},
		"kind-news.html":      {ContentType: "text/html"},
		"kind-changelog.html": {ContentType: "text/html"},
		"kind-rfc.html":       {ContentType: "text/html"},
		"kind-mail.html":      {ContentType: "text/html"},
		"kind-notebook.html":  {ContentType: "text/html"},
		"kind-qa.html":        {ContentType: "text/html"},
		"kind-comments.html":  {ContentType: "text/html"},
		"kind-blog.html":      {ContentType: "text/html"},
		"kind-registry.html":  {ContentType: "text/html"},
		"kind-readme.html":    {ContentType: "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			o.URL = "https://courier.example/nature/" + name
			p, err := Convert(t.Context(), src, o)
			if err != nil {
				t.Fatal(err)
			}
			got := p.FrontMatter(Meta{Status: 200, Fetched: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)}) + "\n" + p.TableOfContents(50) + "\n" + p.Content
			golden.Equal(t, name+".golden", got)
			for _, h := range p.Headings {
				rest := p.Content[byteAt(p.Content, h.Offset):]
				if word, _, _ := strings.Cut(h.Text, " "); !strings.Contains(rest[:min(len(rest), 300)], word) {
					t.Errorf("heading %q: offset %d leads to %.80q", h.Text, h.Offset, rest)
				}
			}
		})
	}
}
