package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// sources returns texts in several languages.
func sources() map[string]code.Language {
	return map[string]code.Language{
		"package a\n\nimport b \"c\"\n\n// T is one.\ntype T struct{ B }\n\nconst X = 1\n\nfunc (t *T) F(a int) int { if a > 0 && t.g() { return b.H(a) }; return 0 }\n": code.Go,
		"from a import b, c\n\nclass D(b):\n    def f(self):\n        return [x for x in c.g() if x]\n":                                                                  code.Python,
		"use a::b;\npub struct S;\nimpl S { fn f(&self) -> u32 { b(1) } }\n":                                                                                             code.Rust,
		"import {a} from './b'\nexport const f = (x: number) => a(x)\n":                                                                                                  code.TypeScript,
		"# TODO: a\nputs 1\n":                           "ruby",
		"package broken\nfunc {":                        code.Go,
		strings.Repeat("func f() { g(`a\nb`) }\n", 200): code.Go,
	}
}

func put(s *Store, path string, l code.Language, text string) {
	s.Put(s.Key(path, l, text), lex.Parse(path, l, text))
}

func get(s *Store, path string, l code.Language, text string) *code.File {
	return s.Get(s.Key(path, l, text), path, l, text)
}

// TestWhatIsKeptComesBack checks that another store of the directory returns what was read
// of a file unchanged, and only for the same version, path, language and text.
func TestWhatIsKeptComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := Open(dir, "1")
	for text, l := range sources() {
		put(s, "x/y", l, text)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, other := Open(dir, "1"), Open(dir, "2")
	defer s.Close()
	defer other.Close()
	for text, l := range sources() {
		want := lex.Parse("x/y", l, text)
		if got := get(s, "x/y", l, text); !same(got, want) {
			t.Errorf("%.30q: got %+v, want %+v", text, got, want)
		}
		for what, got := range map[string]*code.File{"version": get(other, "x/y", l, text), "path": get(s, "x/z", l, text), "text": get(s, "x/y", l, text+" "), "language": get(s, "x/y", "lua", text), "nil": get(nil, "x/y", l, text)} {
			if got != nil {
				t.Errorf("%.30q: another %s has %+v", text, what, got)
			}
		}
	}
}

// same reports whether two files are equal. An empty list and a missing one are
// equal.
func same(a, b *code.File) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// TestEachMemberIsKept checks that each member of a file is kept, also a member that a
// later version adds.
func TestEachMemberIsKept(t *testing.T) {
	f := &code.File{}
	n := 1
	fill(reflect.ValueOf(f).Elem(), &n)
	f.Text = strings.Repeat("x\n", 5000)
	f.Tokens = []code.Token{{Start: 1, End: 3, Line: 1, Kind: code.Name}, {Start: 3, End: 900, Line: 40, Kind: code.Dedent}}
	for i := range f.Funcs {
		f.Funcs[i].Start, f.Funcs[i].End = 1, 2
		for j := range f.Funcs[i].Calls {
			f.Funcs[i].Calls[j].Token = 1
		}
	}
	got := &code.File{Path: f.Path, Language: f.Language, Text: f.Text}
	if !decode(encode(f), got) || !reflect.DeepEqual(got, f) {
		t.Errorf("got %+v, want %+v", got, f)
	}
}

// fill gives each member a different value.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprint(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n % 4))
	default:
		panic(v.Kind())
	}
}

// TestDamageIsNotRead checks that a damaged, cut or foreign entry is not found, and that
// nothing panics.
func TestDamageIsNotRead(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir, "1")
	for text, l := range sources() {
		put(s, "a", l, text)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil || len(names) != 1 {
		t.Fatalf("got %v, %v; want one segment", names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(22, 6))
	for round := range 500 {
		broken := bytes.Clone(whole)
		switch round % 3 {
		case 0:
			broken = broken[:random.IntN(len(broken))]
		case 1:
			broken[random.IntN(len(broken))] ^= byte(1 + random.IntN(255))
		case 2:
			for range 20 {
				broken[random.IntN(len(broken))] = byte(random.IntN(256))
			}
		}
		if err := os.WriteFile(names[0], broken, 0o600); err != nil {
			t.Fatal(err)
		}
		s := Open(dir, "1")
		for text, l := range sources() {
			if got := get(s, "a", l, text); got != nil && !same(got, lex.Parse("a", l, text)) {
				t.Fatalf("round %d, %.30q: got %+v", round, text, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A file that is not a segment is left alone.
	for _, name := range []string{"dir" + ending, "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link"+ending)); err != nil {
		t.Fatal(err)
	}
	if s := Open(dir, "1"); s == nil || s.Close() != nil {
		t.Error("a strange name makes the cache unusable")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := Open(file, "1"); s != nil {
		t.Error("a file is a cache")
	}
}

// FuzzDecode checks that the tokens, functions and calls of a forged entry lie within the
// text of the file.
func FuzzDecode(f *testing.F) {
	for text, l := range sources() {
		f.Add(encode(lex.Parse("a", l, text)), text)
	}
	f.Fuzz(func(t *testing.T, entry []byte, text string) {
		got := &code.File{Text: text}
		if !decode(entry, got) {
			return
		}
		at := int32(0)
		for _, k := range got.Tokens {
			if k.Start < at || k.End < k.Start || int(k.End) > len(text) {
				t.Fatalf("token %+v is not in the text of %d bytes", k, len(text))
			}
			at = k.End
		}
		for _, fn := range got.Funcs {
			if fn.Start > fn.End || fn.End > len(got.Tokens) {
				t.Fatalf("function %+v is not in %d tokens", fn, len(got.Tokens))
			}
			for _, c := range fn.Calls {
				if c.Token >= max(1, len(got.Tokens)) {
					t.Fatalf("call %+v is not in %d tokens", c, len(got.Tokens))
				}
			}
		}
	})
}

// TestTheOldestGo checks that the oldest segments are removed if there are too many or if
// they are too large together.
func TestTheOldestGo(t *testing.T) {
	dir := t.TempDir()
	for i := range maxSegments + 5 {
		name := filepath.Join(dir, fmt.Sprintf("%02d%s", i, ending))
		if err := os.WriteFile(name, []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, fmt.Sprintf("%02d%s", 10, ending)), maxTotal); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, fmt.Sprintf("%02d%s", 10, ending)), time.Time{}, time.Unix(1010, 0)); err != nil {
		t.Fatal(err)
	}
	s := Open(dir, "1")
	put(s, "a.go", code.Go, "package a\n")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil {
		t.Fatal(err)
	}
	// The segment of this run and 11 to 36 are left: with 10 they are too large.
	if len(left) != 27 {
		t.Errorf("%d segments are left, want 27", len(left))
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*")); len(all) != len(left) {
		t.Errorf("got %v: something else is left", all)
	}
}
