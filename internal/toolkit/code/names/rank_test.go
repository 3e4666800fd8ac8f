package names

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

func TestSplit(t *testing.T) {
	for name, want := range map[string]string{
		"parseHTTPRequest":   "parse http request",
		"parse_http_request": "parse http request",
		"parse-http-request": "parse http request",
		"HTTPServer":         "http server",
		"ServeHTTP":          "serve http",
		"utf8ToUTF16":        "utf8 to utf16",
		"MAX_SIZE":           "max size",
		"__init__":           "init",
		"x":                  "x",
		"größeÄndern":        "größe ändern",
		"名前":                 "名前",
		"_":                  "",
		"$el":                "el",
	} {
		if got := strings.Join(split(name), " "); got != want {
			t.Errorf("split(%q): got %q, want %q", name, got, want)
		}
	}
}

func TestSpellOut(t *testing.T) {
	for word, want := range map[string]string{"req": "request", "reqs": "request", "entries": "entry", "files": "file", "class": "class", "status": "status", "this": "this", "cfg": "configuration", "config": "configuration", "zebra": "zebra"} {
		if got := spellOut(word); got != want {
			t.Errorf("spellOut(%q): got %q, want %q", word, got, want)
		}
	}
}

// The expected values are those of Winkler's paper and of the US Census Bureau's table.
func TestJaroWinkler(t *testing.T) {
	for _, tt := range []struct {
		a, b          string
		jaro, winkler float64
	}{
		{"MARTHA", "MARHTA", 0.944, 0.961},
		{"DIXON", "DICKSONX", 0.767, 0.813},
		{"DWAYNE", "DUANE", 0.822, 0.840},
		{"JELLYFISH", "SMELLYFISH", 0.896, 0.896},
		{"ABC", "XYZ", 0, 0},
		{"same", "same", 1, 1},
		{"", "a", 0, 0},
	} {
		if got := jaro([]rune(tt.a), []rune(tt.b)); math.Abs(got-tt.jaro) > 0.0006 {
			t.Errorf("jaro(%q, %q): got %.4f, want %.3f", tt.a, tt.b, got, tt.jaro)
		}
		if got := jaroWinkler([]rune(tt.a), []rune(tt.b)); math.Abs(got-tt.winkler) > 0.0006 {
			t.Errorf("jaroWinkler(%q, %q): got %.4f, want %.3f", tt.a, tt.b, got, tt.winkler)
		}
	}
}

func TestSound(t *testing.T) {
	for _, same := range [][]string{
		{"fone", "phone"},
		{"cache", "cash"},
		{"write", "right", "rite"},
		{"knight", "night"},
		{"queue", "que"},
		{"serial", "cereal"},
		{"color", "colour"},
		{"sync", "sink"},
		{"analyze", "analyse"},
		{"thumb", "thum"},
		{"fetch", "fech"},
		{"psalm", "salm"},
		{"scene", "sene"},
		{"xylem", "zylem"},
		{"edge", "ej"},
	} {
		for _, word := range same[1:] {
			if a, b := sound(same[0]), sound(word); a != b || a == "" {
				t.Errorf("sound: %q has %q, %q has %q, want the same", same[0], a, word, b)
			}
		}
	}
	for _, pair := range [][2]string{{"read", "load"}, {"this", "disk"}, {"parse", "pass"}, {"ship", "sip"}, {"bat", "pat"}} {
		if a, b := sound(pair[0]), sound(pair[1]); a == b {
			t.Errorf("sound: %q and %q both have %q", pair[0], pair[1], a)
		}
	}
	if got := sound("名前"); got != "" {
		t.Errorf("sound of a word without Latin letters: got %q, want none", got)
	}
}

// named makes symbols of names, each at its line.
func named(names ...string) []Symbol {
	var all []Symbol
	for i, n := range names {
		all = append(all, Symbol{Name: n, Path: "a.go", Line: i + 1, Scope: Functions})
	}
	return all
}

func rank(t testing.TB, query string, symbols []Symbol, o Options) Result {
	t.Helper()
	res, err := Rank(context.Background(), query, symbols, o)
	if err != nil {
		t.Fatalf("Rank(%q): %v", query, err)
	}
	return res
}

// TestNearest checks that the first name is the one that a person would call the nearest.
func TestNearest(t *testing.T) {
	symbols := named("parseHTTPRequest", "ReadConfig", "configuration_loader", "writeFile", "getUserByID", "fetch_user_by_id", "sendMessage", "msgQueue", "computeChecksum", "openConnection",
		"closeConn", "Buffer", "newBuf", "indexOf", "String", "toString", "maxSize", "retryCount", "errorHandler", "phoneNumber", "quit", "encode", "decode", "encoder", "hashPassword", "listDirs", "walkTree")
	for query, want := range map[string]string{
		"parseHttpReq":       "parseHTTPRequest",
		"http_request_parse": "parseHTTPRequest",
		"read_configuration": "ReadConfig",
		"loadConfig":         "configuration_loader",
		"FileWriter":         "writeFile",
		"userById":           "getUserByID",
		"fetchUser":          "fetch_user_by_id",
		"messageQueue":       "msgQueue",
		"send_msg":           "sendMessage",
		"calcCheckSum":       "computeChecksum",
		"connectionOpen":     "openConnection",
		"close_connection":   "closeConn",
		"new_buffer":         "newBuf",
		"maximumSize":        "maxSize",
		"count_retries":      "retryCount",
		"errHandler":         "errorHandler",
		"encod":              "encode",
		"decoder":            "decode",
		"passwordHash":       "hashPassword",
		"list_directory":     "listDirs",
		"tree-walk":          "walkTree",
		"computeChecksun":    "computeChecksum",
		"string":             "String",
	} {
		if got := rank(t, query, symbols, Options{}).Hits[0]; got.Name != want {
			t.Errorf("%s: got %s (%v), want %s", query, got.Name, got.Score, want)
		}
	}
}

func TestExactIsFirst(t *testing.T) {
	// For a name with the same letters in another case, all parts are 1, too.
	res := rank(t, "readAll", named("ReadAll", "read_all", "readAll", "READ_ALL", "readAlls"), Options{})
	if res.Hits[0].Name != "readAll" || !res.Hits[0].Parts.Exact || res.Hits[0].Score != 1 || res.Hits[1].Parts.Exact {
		t.Errorf("got %+v, want readAll first and alone exact", res.Hits)
	}
	if res := rank(t, "_", named("a", "_"), Options{Phonetic: true}); len(res.Hits) != 1 || res.Hits[0].Score != 1 {
		t.Errorf("a name without letters: got %+v, want itself alone", res.Hits)
	}
}

// An abbreviation matches the word that it stands for.
func TestAbbreviations(t *testing.T) {
	res := rank(t, "request_configuration", named("reqCfg", "questConflict"), Options{})
	if h := res.Hits[0]; h.Name != "reqCfg" || h.Parts.Words != 1 {
		t.Errorf("got %+v, want reqCfg first with all words", res.Hits)
	}
}

// Each part of a result changes with the text that it is measured from.
func TestEachFieldIsMeasured(t *testing.T) {
	base := named("readFile", "readFile", "writeFile")
	hit := func(r Result) Hit { return r.Hits[0] }
	for _, tt := range []struct {
		field      string
		of         func(Result) any
		query      string
		symbols    []Symbol
		o          Options
		queryAfter string
	}{
		{"name", func(r Result) any { return hit(r).Name }, "readFile", base, Options{}, "writeFile"},
		{"score", func(r Result) any { return hit(r).Score }, "readFile", base, Options{}, "readFil"},
		{"exact", func(r Result) any { return hit(r).Parts.Exact }, "readFile", base, Options{}, "ReadFile"},
		{"words", func(r Result) any { return hit(r).Parts.Words }, "readFile", base, Options{}, "readFileNow"},
		{"runs", func(r Result) any { return hit(r).Parts.Runs }, "readFile", base, Options{}, "readFiles"},
		{"letters", func(r Result) any { return hit(r).Parts.Letters }, "readFile", base, Options{}, "readFlie"},
		{"sound", func(r Result) any { return *hit(r).Parts.Sound }, "reedPhile", base, Options{Phonetic: true}, "reedBile"},
		{"count", func(r Result) any { return hit(r).Count }, "readFile", base, Options{}, "writeFile"},
		{"symbols", func(r Result) any { return hit(r).Symbols }, "readFile", base, Options{}, "writeFile"},
		{"hits", func(r Result) any { return len(r.Hits) }, "readFile", base, Options{}, "xq"},
	} {
		before, after := tt.of(rank(t, tt.query, tt.symbols, tt.o)), any(nil)
		if res := rank(t, tt.queryAfter, tt.symbols, tt.o); tt.field == "hits" || len(res.Hits) > 0 {
			after = tt.of(res)
		}
		if reflect.DeepEqual(before, after) {
			t.Errorf("%s: %v before and after a change", tt.field, after)
		}
	}
	if a, b := rank(t, "x", base, Options{}).Compared, rank(t, "x", named("a", "b", "c"), Options{}).Compared; a != 2 || b != 3 {
		t.Errorf("compared: got %d and %d, want 2 and 3", a, b)
	}
	sum := hit(rank(t, "reedFile", base, Options{Phonetic: true}))
	if want := 0.35*sum.Parts.Words + 0.25*sum.Parts.Runs + 0.25*sum.Parts.Letters + 0.15**sum.Parts.Sound; math.Abs(sum.Score-want) > 1e-12 {
		t.Errorf("score %v, want the sum %v of its parts", sum.Score, want)
	}
	if *sum.Parts.Sound != 1 {
		t.Errorf("reedFile sounds like readFile by %v, want 1", *sum.Parts.Sound)
	}
	if p := hit(rank(t, "reedFile", base, Options{})).Parts; p.Sound != nil {
		t.Errorf("sound %v without being asked for, want none", *p.Sound)
	}
}

func TestScopes(t *testing.T) {
	f := lex.Parse("a.go", code.Go, "package a\n\ntype Reader struct{}\n\nvar reader1 Reader\n\nfunc (r Reader) Read() {}\n\nfunc reading() {}\n")
	symbols := Symbols([]*code.File{f})
	for scope, want := range map[Scope][]string{
		Functions: {"Read", "reading"},
		Types:     {"Reader"},
		Variables: {"reader1"},
		All:       {"Read", "Reader", "reader1", "reading"},
		"":        {"Read", "Reader", "reader1", "reading"},
	} {
		var got []string
		for _, h := range rank(t, "reader", symbols, Options{Scope: scope}).Hits {
			got = append(got, h.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("scope %q: got %v, want %v", scope, got, want)
		}
	}
	res := rank(t, "Read", symbols, Options{TopK: 1})
	if want := []Symbol{{Name: "Read", Path: "a.go", Line: 7, Scope: Functions, Owner: "Reader"}}; len(res.Hits) != 1 || !slices.Equal(res.Hits[0].Symbols, want) {
		t.Errorf("got %+v, want %+v alone", res.Hits, want)
	}
}

func TestBadOptions(t *testing.T) {
	for _, tt := range []struct {
		query string
		o     Options
	}{{"", Options{}}, {" \t", Options{}}, {strings.Repeat("x", maxName+1), Options{}}, {"x", Options{TopK: -1}}, {"x", Options{TopK: maxTop + 1}}, {"x", Options{Scope: "macros"}}} {
		if _, err := Rank(context.Background(), tt.query, nil, tt.o); err == nil {
			t.Errorf("Rank(%.10q, %+v): got no error, want one", tt.query, tt.o)
		}
	}
}

func TestBounds(t *testing.T) {
	symbols := named(strings.Repeat("x", maxName+1), strings.Repeat("ä", maxName))
	for i := range maxNames + 5 {
		symbols = append(symbols, Symbol{Name: fmt.Sprintf("name%d", i), Path: "b.go", Scope: Variables})
	}
	for range maxSymbols + 5 {
		symbols = append(symbols, Symbol{Name: "name7", Path: "c.go", Scope: Variables})
	}
	res := rank(t, "name7", symbols, Options{TopK: 3})
	if len(res.Hits) != 3 || res.Hits[0].Name != "name7" || res.Hits[0].Count != maxSymbols+6 || len(res.Hits[0].Symbols) != maxSymbols {
		t.Errorf("got %+v, want name7 with %d symbols first of three", res.Hits, maxSymbols)
	}
	if res.Compared != maxNames {
		t.Errorf("compared %d, want %d", res.Compared, maxNames)
	}
	want := []code.Gap{
		{Field: "hits", Reason: fmt.Sprintf("1 symbols have names of more than %d letters", maxName)},
		{Field: "hits", Reason: fmt.Sprintf("6 symbols beyond the first %d names were not compared", maxNames)},
	}
	if !slices.Equal(res.Gaps, want) {
		t.Errorf("gaps: got %+v, want %+v", res.Gaps, want)
	}
	why := errors.New("too late")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if _, err := Rank(ctx, "x", symbols, Options{}); !errors.Is(err, why) {
		t.Errorf("got error %v, want %v", err, why)
	}
}

func FuzzRank(f *testing.F) {
	f.Add("parseHTTP", "parse_http", true)
	f.Add("_", "", false)
	f.Add("\xff\xfe", "ǅǅ", true)
	f.Add("XXGHMBSCHTIO", "wrpskn", true)
	f.Fuzz(func(t *testing.T, query, name string, phonetic bool) {
		res, err := Rank(context.Background(), query, named(name, query), Options{Phonetic: phonetic})
		if err != nil {
			return
		}
		if len(res.Hits) == 0 || res.Hits[0].Name != query || math.Abs(res.Hits[0].Score-1) > 1e-9 {
			t.Fatalf("query %q: got %+v, want itself first with 1", query, res.Hits)
		}
		for _, h := range res.Hits {
			for _, p := range []float64{h.Score, h.Parts.Words, h.Parts.Runs, h.Parts.Letters} {
				if !(p >= 0 && p <= 1+1e-9) {
					t.Errorf("part %v of %+v", p, h)
				}
			}
		}
	})
}

func BenchmarkRank(b *testing.B) {
	var symbols []Symbol
	for i := range 10_000 {
		symbols = append(symbols, Symbol{Name: fmt.Sprintf("parse%dRequest_%c", i, 'a'+i%26), Path: "a.go"})
	}
	for b.Loop() {
		rank(b, "parseHTTPRequest", symbols, Options{Phonetic: true})
	}
}
