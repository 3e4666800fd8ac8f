package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/wire"
	"golang.org/x/text/unicode/norm"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{` { "b" : 1 , "a" : [ true , false , null ] } `, `{"a":[true,false,null],"b":1}`},
		{`{}`, `{}`},
		{`[]`, `[]`},
		{`""`, `""`},
		// The example of RFC 8785, section 3.2.2, except for a number that a double cannot
		// represent.
		{
			`{"numbers":[333333333.3,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		// The example of RFC 8785, section 3.2.3: names in the order of their UTF-16 units.
		// The last name of that section changes in normal form C, so it is replaced by
		// another one.
		{
			`{"\u20ac":1,"\r":2,"\uff5e":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\uff5e\":3}",
		},
		{`{"b":{"d":1,"c":2},"a":0}`, `{"a":0,"b":{"c":2,"d":1}}`},
		{`{"a":1,"\u0062":2,"c":3}`, `{"a":1,"b":2,"c":3}`},
		{`"\u0065\u0301"`, `"é"`},
		{"\"e\u0301\"", `"é"`},
		{"\"e\u200b\u0301\"", "\"e\u200b\u0301\""},
		{`"\b\f\n\r\t\u0000\u001f\u007f<>&"`, "\"\\b\\f\\n\\r\\t\\u0000\\u001f\u007f<>&\""},
	} {
		got, err := new(canon).append(nil, []byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("canonical(%s)\ngot  %s, %v\nwant %s", c.in, got, err, c.want)
		}
	}
}

// Numbers are written as ECMAScript writes them, with all their digits.
func TestCanonicalNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0.00e5": "0", "0e99999": "0", "1": "1", "1.0": "1", "1e0": "1", "100e-2": "1", "10E-1": "1", "0.1e1": "1", "-1.50": "-1.5",
		"1e20": "100000000000000000000", "1e21": "1e+21", "123456789012345678901": "123456789012345678901", "1234567890123456789012": "1.234567890123456789012e+21",
		"0.000001": "0.000001", "0.0000001": "1e-7", "1.5e-7": "1.5e-7", "12.5e-8": "1.25e-7",
		"9007199254740993": "9007199254740993", "9007199254740992": "9007199254740992", "9007199254740992.0": "9007199254740992",
		"0.1000000000000000055511151231257827": "0.1000000000000000055511151231257827", "1e400": "1e+400", "1e-400": "1e-400",
	} {
		got, err := new(canon).append(nil, []byte(in))
		if err != nil || string(got) != want {
			t.Errorf("canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	// A number that a double can represent is written as encoding/json writes it, which
	// follows ECMAScript.
	n, r := testenv.Cases(t, 2000)
	for range n {
		f := math.Float64frombits(r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			continue
		}
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range "eEfg" {
			got, err := new(canon).append(nil, strconv.AppendFloat(nil, f, byte(format), -1, 64))
			if err != nil || string(got) != string(want) {
				t.Fatalf("canonical of %v as %c: %s, %v, want %s", f, format, got, err, want)
			}
		}
	}
}

// A string without escapes is written without escapes, in normal form C. The normal form
// must not create a character that needs an escape.
func TestNormalFormNeedsNoEscapes(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if text := normal(utf8.AppendRune(nil, r), false); bytes.ContainsAny(text, "\"\\") || text[0] < ' ' {
			t.Errorf("%U becomes %q", r, text)
		}
	}
}

// A text that two readers could understand differently has no canonical form.
func TestNoCanonicalForm(t *testing.T) {
	for in, want := range map[string]error{
		"": errSyntax, " ": errSyntax, "{": errSyntax, "[1,]": errSyntax, `{"a":1,}`: errSyntax, `{,}`: errSyntax, "[,1]": errSyntax, "1 2": errSyntax, "tru": errSyntax, "nul": errSyntax, "01": errSyntax,
		"1.": errSyntax, ".5": errSyntax, "+1": errSyntax, "1e": errSyntax, "-": errSyntax, "--1": errSyntax, `{a:1}`: errSyntax, `{"a" 1}`: errSyntax, `{"a":1 "b":2}`: errSyntax, `"`: errSyntax, `"\`: errSyntax, `"\x"`: errSyntax, `"\u12"`: errSyntax, `"\u12g4"`: errSyntax,
		"\"\n\"": errSyntax, "\x00": errSyntax, `[1}`: errSyntax, "NaN": errSyntax, "\ufeff1": errSyntax, "'a'": errSyntax, "tr ue": errSyntax,
		"\"\xff\"": errUTF8, "\"\xed\xa0\x80\"": errUTF8,
		`{"a":1,"a":1}`: errTwice, `{"a":1,"\u0061":2}`: errTwice, `[{"x":{"b":1,"a":2,"b":3}}]`: errTwice, `{"é":1,"e\u0301":2}`: errTwice,
		`"\ud800"`: errSurrogate, `"\ud800\ud800"`: errSurrogate, `"\udc00"`: errSurrogate, `"\ud800x"`: errSurrogate, `"\udc00\ud800"`: errSurrogate, `"\ud83d\n"`: errSurrogate,
		"1e100001": errNumber, "1e-100001": errNumber, "1e99999999999999999999": errNumber,
		strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2):     errDeep,
		strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000): errDeep,
	} {
		got, err := new(canon).append(nil, []byte(in))
		if !errors.Is(err, want) {
			t.Errorf("canonical(%.60q) = %.60s, %v, want %v", in, got, err, want)
		}
	}
	if _, err := new(canon).append(nil, []byte(strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth))); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
}

// FuzzCanonical compares with the JSON checker of package wire, and reads the canonical
// form again.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9"],"b":null}`, `[]`, `"\ud83d\ude00"`, `-0.0`, `{"b":1,"a":{"d":[],"c":{}}}`, `{"a":1,"a":2}`, "[1,2", `"e\u0301"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := new(canon).append(nil, in)
		if checked := wire.CheckJSON(in, maxDepth); err == nil && checked != nil {
			t.Fatalf("%q has the canonical form %s, and the wire refuses it: %v", in, out, checked)
		} else if err != nil && checked == nil && !errors.Is(err, errTwice) && !errors.Is(err, errSurrogate) && !errors.Is(err, errNumber) {
			t.Fatalf("%q: %v, and the wire accepts it", in, err)
		}
		if err != nil {
			return
		}
		again, err := new(canon).append(nil, out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q has the canonical form %s, and that has %s, %v", in, out, again, err)
		}
		if a, b := decoded(t, in), decoded(t, out); !reflect.DeepEqual(a, b) {
			t.Fatalf("%q and its canonical form %s say different things: %v and %v", in, out, a, b)
		}
	})
}

// decoded returns a JSON text as encoding/json reads it, with its strings in normal form C.
func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		if strings.Contains(err.Error(), "cannot unmarshal number") { // the number is too large for a double
			return nil
		}
		t.Fatal(err)
	}
	return normalised(v)
}

func normalised(v any) any {
	switch v := v.(type) {
	case string:
		return norm.NFC.String(v)
	case []any:
		for i := range v {
			v[i] = normalised(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[norm.NFC.String(name)] = normalised(value)
		}
		return out
	}
	return v
}

// tree returns a random value.
func tree(r *rand.Rand, depth int) any {
	texts := []string{"", "a", "path", "Read the file é", "名字", "😀 ok", "line\nend\t\"q\"\\", "\u200b", "Ω", "ﬁ", "x\x00"}
	switch n := r.IntN(9); {
	case n < 2 && depth > 0:
		object := make(map[string]any)
		for range r.IntN(5) {
			object[texts[r.IntN(len(texts))]+strconv.Itoa(r.IntN(3))] = tree(r, depth-1)
		}
		return object
	case n < 4 && depth > 0:
		var array []any
		for range r.IntN(4) {
			array = append(array, tree(r, depth-1))
		}
		return array
	case n < 6:
		return json.Number(strconv.Itoa(r.IntN(2000) - 1000))
	case n < 7:
		return []any{true, false, nil}[r.IntN(3)]
	}
	return texts[r.IntN(len(texts))]
}

// spelled writes a value in one of the many spellings with the same meaning.
func spelled(r *rand.Rand, v any) string {
	space := func() string { return strings.Repeat([]string{"", " ", "\n", "\t", "\r\n"}[r.IntN(5)], r.IntN(3)) }
	var out strings.Builder
	out.WriteString(space())
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var members []string
		for _, name := range names {
			members = append(members, space()+spelledText(r, name)+space()+":"+spelled(r, v[name]))
		}
		out.WriteString("{" + strings.Join(members, ",") + space() + "}")
	case []any:
		var elements []string
		for _, element := range v {
			elements = append(elements, spelled(r, element))
		}
		out.WriteString("[" + strings.Join(elements, ",") + space() + "]")
	case json.Number:
		ways := []string{string(v), string(v) + ".0", string(v) + "e0", string(v) + ".000E+0", string(v) + "0e-1"}
		if v == "0" {
			ways = append(ways[:4], "-0", "0e7")
		}
		out.WriteString(ways[r.IntN(len(ways))])
	case string:
		out.WriteString(spelledText(r, v))
	case nil:
		out.WriteString("null")
	default:
		fmt.Fprint(&out, v)
	}
	return out.String() + space()
}

func spelledText(r *rand.Rand, text string) string {
	if r.IntN(2) == 0 {
		text = norm.NFD.String(text)
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range text {
		switch {
		case c < ' ' || c == '"' || c == '\\' || r.IntN(4) == 0:
			if c > 0xffff {
				fmt.Fprintf(&out, `\u%04x\u%04X`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
			} else {
				fmt.Fprintf(&out, `\u%04x`, c)
			}
		case c == '/' && r.IntN(2) == 0:
			out.WriteString(`\/`)
		default:
			out.WriteRune(c)
		}
	}
	return out.String() + `"`
}

// Two spellings of a value have the same canonical form, and two values have different
// ones.
func TestSpellings(t *testing.T) {
	n, r := testenv.Cases(t, 500)
	forms := make(map[string]string)
	for range n {
		v := tree(r, 4)
		one, two := spelled(r, v), spelled(r, v)
		a, err := new(canon).append(nil, []byte(one))
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		b, err := new(canon).append(nil, []byte(two))
		if err != nil || string(a) != string(b) {
			t.Fatalf("%s\nand\n%s\nhave the canonical forms\n%s\nand, with %v,\n%s", one, two, a, err, b)
		}
		says := fmt.Sprintf("%#v", normalised(v))
		if other, ok := forms[string(a)]; ok && other != says {
			t.Fatalf("%s and %s have the canonical form %s", other, says, a)
		}
		forms[string(a)] = says
	}
}
