package page

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestTreeQuality compares the text of saved pages in our tree with the text in the tree
// that x/net/html makes according to the standard.
func TestTreeQuality(t *testing.T) {
	articles, _ := filepath.Glob(filepath.Join(os.Getenv("BELLJAR_QUALITY_ARTICLES"), "html", "*.gz"))
	docs, _ := filepath.Glob(filepath.Join(os.Getenv("BELLJAR_QUALITY_DOCS"), "*", "*.html"))
	if len(articles)+len(docs) == 0 {
		t.Skip("BELLJAR_QUALITY_ARTICLES and BELLJAR_QUALITY_DOCS name no pages")
	}
	same := 0
	for _, name := range append(articles, docs...) {
		var src []byte
		if strings.HasSuffix(name, ".gz") {
			src = readGzip(t, name)
		} else {
			src, _ = os.ReadFile(name)
		}
		src, _, _ = decode(src, "", false)
		ours, err := parse(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := html.ParseWithOptions(bytes.NewReader(src), html.ParseOptionEnableScripting(false))
		if err != nil {
			t.Fatal(err)
		}
		got, want := plainText(ours.body), plainText(first(doc, func(n *html.Node) bool { return is(n, "body") }))
		if strings.Join(strings.Fields(got), " ") == strings.Join(strings.Fields(want), " ") {
			same++
			continue
		}
		s := compare(want, got)
		t.Logf("%s: precision %.4f recall %.4f", filepath.Base(name), s.p, s.r)
	}
	all := len(articles) + len(docs)
	t.Logf("trees: %d of %d pages have the same text", same, all)
	if same*100 < all*99 {
		t.Errorf("got the same text on %d of %d pages, want nearly all", same, all)
	}
}
