package policies

import (
	"maps"
	"slices"
	"strings"
)

// shape says which keys a mapping of a policy may have. The decoder and the
// schema for editors both take the keys from the shape, so that the two cannot
// differ.
type shape struct {
	name string // name of the shape in the schema
	doc  string
	keys []key
	also func(*form) // adds to the schema what the keys alone do not express; may be nil
}

// key is one key of a shape.
type key struct {
	name string
	is   value
	doc  string
	need bool
}

// value makes the schema of a value. Only Schema calls it: if schemas were made earlier,
// every start of the program would pay for them.
type value func() *form

// names returns the keys of a shape. It returns nil for a nil shape, which is a mapping
// whose keys are names that the policy chooses.
func (s *shape) names() []string {
	if s == nil {
		return nil
	}
	all := make([]string, len(s.keys))
	for i, k := range s.keys {
		all[i] = k.name
	}
	return all
}

// without returns the shape without some keys, under another name.
func (s *shape) without(name, doc string, keys ...string) *shape {
	return &shape{name: name, doc: doc, keys: slices.DeleteFunc(slices.Clone(s.keys), func(k key) bool { return slices.Contains(keys, k.name) })}
}

// form returns the schema of the shape.
func (s *shape) form() *form {
	f := &form{Description: s.doc, Type: "object", mappingForm: mappingForm{Additional: false}}
	for _, k := range s.keys {
		is := k.is()
		if k.doc != "" {
			is.Description = k.doc
		}
		f.Properties = append(f.Properties, member{k.name, is})
		if k.need {
			f.Required = append(f.Required, k.name)
		}
	}
	if s.also != nil {
		s.also(f)
	}
	return f
}

// ref returns the schema of a value that has the shape.
func (s *shape) ref() value {
	return func() *form { return &form{Ref: "#/$defs/" + s.name, of: []*shape{s}} }
}

// The schemas of values. Each has a function in the decoder that reads such values.

// aText is a value that text reads.
func aText(examples ...any) value { return textLike(`\S`, examples...) }

// textLike is a value that text reads and that must match a pattern.
func textLike(pattern string, examples ...any) value {
	return func() *form { return &form{Type: "string", Pattern: pattern, Examples: examples} }
}

// someTexts is a value that texts reads: one text, or a list of texts that are not empty.
func someTexts(one value) value {
	return func() *form {
		bare := one()
		examples := bare.Examples
		bare.Examples = nil
		list := aFullList(func() *form { return bare }, maxTexts)
		return &form{AnyOf: []*form{one(), list()}, Examples: examples}
	}
}

// aList is a value that items reads.
func aList(one value, most int) value {
	return func() *form { return &form{Type: "array", listForm: listForm{Items: one(), MaxItems: most}} }
}

// aFullList is a list that is not empty.
func aFullList(one value, most int) value {
	return func() *form {
		return &form{Type: "array", listForm: listForm{Items: one(), MinItems: 1, MaxItems: most}}
	}
}

// aWord is a value that word reads.
func aWord(words ...string) value {
	return func() *form { return &form{Type: "string", Enum: words} }
}

// aTruth is a value that truth reads.
func aTruth() value { return func() *form { return &form{Type: "boolean"} } }

// aCount is a number that count reads.
func aCount(most int64) value {
	return func() *form {
		return &form{Type: []string{"integer", "string"}, Minimum: new(1.0), Maximum: float64(most), Pattern: "^[0-9]+$"}
	}
}

// aSize is a size that count reads.
func aSize(most int64, examples ...any) value {
	return func() *form {
		named := slices.DeleteFunc(slices.Sorted(maps.Keys(units)), func(u string) bool { return u == "" })
		return &form{
			Type: []string{"integer", "string"}, Minimum: new(1.0), Maximum: float64(most),
			Pattern: "^[0-9]+ ?(" + strings.Join(named, "|") + ")?$", Examples: examples,
		}
	}
}

// aNumber is a value that number reads.
func aNumber(low, most float64) value {
	return func() *form {
		return &form{Type: []string{"number", "string"}, Minimum: new(low), Maximum: most, Pattern: "^[+]?[0-9.]+([eE][-+]?[0-9]+)?$"}
	}
}

// timePattern matches the texts that time.ParseDuration accepts, above zero.
const timePattern = `[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+`

// aTime is a value that duration reads.
func aTime(examples ...any) value { return textLike("^"+timePattern+"$", examples...) }

// aRate is a value that rate reads.
func aRate() value {
	return func() *form {
		return textLike("^[0-9]+ ?/ ?("+strings.Join(slices.Sorted(maps.Keys(pers)), "|")+")$", "30/h", "10/s", "120/min", "500/day")()
	}
}

// portPattern matches a port in a text.
const portPattern = "[1-9][0-9]{0,4}"

func aPort() value {
	return func() *form {
		return &form{Type: []string{"integer", "string"}, Minimum: new(1.0), Maximum: 65535, Pattern: "^" + portPattern + "$"}
	}
}

// either is a value of one of two kinds.
func either(one, other value) value {
	return func() *form { return &form{AnyOf: []*form{one(), other()}} }
}

// oneOrMore is one value of a kind, or a list of such values that is not empty.
func oneOrMore(one value, most int) value { return either(one, aFullList(one, most)) }

// byName is a mapping whose keys are names that the policy chooses.
func byName(pattern string, of value, most int) value {
	return func() *form {
		return &form{Type: "object", mappingForm: mappingForm{PropertyNames: &form{Pattern: pattern}, Additional: of(), MinProperties: 1, MaxProperties: most}}
	}
}

// has returns the form of a mapping in which a key has a value; a nil value means any
// value.
func has(key string, value any) *form {
	f := &form{mappingForm: mappingForm{Required: []string{key}}}
	if value != nil {
		f.Properties = members{{key, &form{Const: value}}}
	}
	return f
}

// lacks returns the form of a mapping without the keys.
func lacks(keys ...string) *form {
	none := &form{}
	for _, k := range keys {
		none.AnyOf = append(none.AnyOf, has(k, nil))
	}
	return &form{Not: none}
}

// hasOne returns the form of a mapping that has at least one of the keys.
func hasOne(keys ...string) *form { return lacks(keys...).Not }

// whenForm returns a form that demands then of a mapping that fits is.
func whenForm(is, then *form) *form { return &form{If: is, Then: then} }

// aRemember is a value that remember reads.
func aRemember() value {
	return func() *form {
		f := someTexts(textLike("^(once|session|"+timePattern+")$", "once", "session", "1h"))()
		f.Examples = []any{[]string{"once", "session"}, []string{"once", "1h"}}
		return f
	}
}

// toolName is the name of a tool. Editors offer the names of belljar's own tools.
func toolName() value {
	return func() *form { return either(aWord(knownTools...), aText())() }
}
