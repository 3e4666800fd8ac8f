package page

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"unicode"
)

// shingles are the 4-grams of the words of a text, counted.
func shingles(text string) map[string]float64 {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && r != '_' })
	m := make(map[string]float64)
	if len(words) == 0 {
		return m
	}
	if len(words) < 4 {
		m[strings.Join(words, " ")] = 1
		return m
	}
	for i := 0; i+4 <= len(words); i++ {
		m[strings.Join(words[i:i+4], " ")]++
	}
	return m
}

// score is the precision and recall of one page.
type score struct{ p, r float64 }

func compare(want, got string) score {
	a, b := shingles(want), shingles(got)
	var tp, fp, fn float64
	for k, n := range a {
		tp += min(n, b[k])
		fn += max(0, n-b[k])
	}
	for k, n := range b {
		fp += max(0, n-a[k])
	}
	s := score{}
	if tp == 0 && fp == 0 && fn == 0 {
		return score{1, 1}
	}
	if tp+fp > 0 {
		s.p = tp / (tp + fp)
	}
	if tp+fn > 0 {
		s.r = tp / (tp + fn)
	}
	return s
}

// mean is F1 from the means of precision and recall.
func mean(all []score) (f, p, r float64) {
	for _, s := range all {
		p += s.p
		r += s.r
	}
	p /= float64(len(all))
	r /= float64(len(all))
	return 2 * p * r / (p + r), p, r
}

func readGzip(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestArticleQuality needs a directory of saved articles with their text:
// html/<id>.html.gz and ground-truth.json.
func TestArticleQuality(t *testing.T) {
	dir := os.Getenv("BELLJAR_QUALITY_ARTICLES")
	if _, err := os.Stat(dir); dir == "" || err != nil {
		t.Skip("BELLJAR_QUALITY_ARTICLES names no directory of articles")
	}
	text, err := os.ReadFile(filepath.Join(dir, "ground-truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth map[string]struct {
		Body string `json:"articleBody"`
		URL  string `json:"url"`
	}
	if err := json.Unmarshal(text, &truth); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 0, len(truth))
	for id := range truth {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	var scores, even, odd []score
	for i, id := range ids {
		src := readGzip(t, filepath.Join(dir, "html", id+".html.gz"))
		p, err := Convert(t.Context(), src, Options{URL: truth[id].URL, Format: Text, ContentType: "text/html; charset=utf-8"})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		s := compare(truth[id].Body, p.Content)
		if out := os.Getenv("BELLJAR_QUALITY_OUT"); out != "" {
			os.WriteFile(filepath.Join(out, id+".got"), []byte(p.Content), 0o600)
			os.WriteFile(filepath.Join(out, id+".want"), []byte(truth[id].Body), 0o600)
		}
		t.Logf("%s p %.3f r %.3f %-11s %s", id[:8], s.p, s.r, p.Extraction, truth[id].URL[:min(70, len(truth[id].URL))])
		scores = append(scores, s)
		if i%2 == 0 {
			even = append(even, s)
		} else {
			odd = append(odd, s)
		}
	}
	f, p, r := mean(scores)
	fe, _, _ := mean(even)
	fo, _, _ := mean(odd)
	t.Logf("articles: %d pages, F1 %.3f precision %.3f recall %.3f (halves %.3f %.3f)", len(scores), f, p, r, fe, fo)
	if f < 0.962 {
		t.Errorf("articles: got F1 %.3f, want at least 0.962", f)
	}
}
