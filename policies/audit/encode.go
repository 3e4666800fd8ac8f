package audit

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"belljar.dev/policies"
)

// stamp is the layout of the time in records.
const stamp = "2006-01-02T15:04:05.000000Z"

// quick is a Record that writes its own JSON. The records of calls do so, because
// a call waits for them: encoding/json, which has to inspect every type, would
// cost more than all the rest together.
type quick interface {
	write(b *body)
}

// writerOf returns the value of pid, and the member node if there is one, of every record
// of a log: `PID`, or `PID,"node":"NAME"`.
func writerOf(cfg Config) string {
	text := strconv.Itoa(os.Getpid())
	if cfg.Node != "" {
		text += `,"node":` + string(appendString(nil, cfg.Node))
	}
	return text
}

// encode returns `"kind":...}` of a record: the part of its line behind seq and prev. from
// is the result of writerOf.
func encode(from string, kind Kind, r *redactor, rec any) ([]byte, error) {
	b, ok := bodies.Get().(*body)
	if !ok {
		b = new(body)
	}
	defer b.release()
	b.r, b.text, b.size = r, b.text[:0], 0
	b.raw(`"kind":"`)
	b.raw(string(kind))
	b.raw(`","v":1,"ts":"`)
	b.text = time.Now().UTC().AppendFormat(b.text, stamp)
	b.raw(`","pid":`)
	b.raw(from)
	if q, ok := rec.(quick); ok {
		q.write(b)
		b.raw(`}`)
	} else {
		text, err := json.Marshal(rec)
		if err != nil {
			return nil, fmt.Errorf("audit log: encode record: %w", err)
		}
		if len(text) > len("{}") {
			b.raw(`,`)
		}
		b.text = append(b.text, text[1:]...)
	}
	if len(b.text) > maxLine-512 { // 512 bytes are left for seq and prev
		return nil, fmt.Errorf("audit log: a record of %d bytes is longer than any may be", len(b.text))
	}
	return slices.Clone(b.text), nil
}

// bodies are buffers that wait for the next record.
var bodies sync.Pool

// body is the JSON text of a record while it is written, field by field.
type body struct {
	r    *redactor
	text []byte
	size int      // approximate bytes of args, or of facts, so far; bounded by maxArgs
	keys []string // keys of the objects that sorted is working on
}

// release returns the buffer to the pool, unless a large record has made it large.
func (b *body) release() {
	b.r = nil
	if cap(b.text) <= 64<<10 {
		clear(b.keys[:cap(b.keys)])
		bodies.Put(b)
	}
}

func (b *body) raw(s string) { b.text = append(b.text, s...) }

// name writes a comma and the name of a field. A caller that opens an object replaces the
// first comma by '{'.
func (b *body) name(name string) {
	b.raw(`,"`)
	b.raw(name)
	b.raw(`":`)
}

// str writes a field, even if the value is empty.
func (b *body) str(name, value string) {
	b.name(name)
	b.text = appendString(b.text, value)
}

// strIfSet writes a field unless the value is empty.
func (b *body) strIfSet(name, value string) {
	if value != "" {
		b.str(name, value)
	}
}

func (b *body) num(name string, value int64) {
	b.name(name)
	b.text = strconv.AppendInt(b.text, value, 10)
}

// numIfSet writes a number unless it is 0.
func (b *body) numIfSet(name string, value int64) {
	if value != 0 {
		b.num(name, value)
	}
}

func (b *body) boolean(name string, value bool) {
	b.name(name)
	b.text = strconv.AppendBool(b.text, value)
}

// boolIfTrue writes a boolean if it is true.
func (b *body) boolIfTrue(name string, value bool) {
	if value {
		b.boolean(name, true)
	}
}

// anyValue writes a field of any type. Calls seldom have one.
func (b *body) anyValue(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		return // a type without a JSON form is a mistake of this program, which a test finds
	}
	b.name(name)
	b.text = append(b.text, text...)
}

// rules writes the rules that decided.
func (b *body) rules(rules []Rule) {
	b.name("rules")
	b.raw(`[`)
	for i, r := range rules {
		if i > 0 {
			b.raw(`,`)
		}
		b.raw(`{"id":`)
		b.text = appendString(b.text, r.ID)
		b.strIfSet("file", r.File)
		b.numIfSet("line", int64(r.Line))
		b.str("verdict", r.Verdict)
		b.strIfSet("mode", r.Mode)
		b.raw(`}`)
	}
	b.raw(`]`)
}

// sorted calls use for each key of m, in sorted order.
func (b *body) sorted(m map[string]any, use func(i int, key string)) {
	others := len(b.keys) // number of keys of the objects around this one
	for key := range m {
		b.keys = append(b.keys, key)
	}
	mine := b.keys[others:]
	slices.Sort(mine)
	for i, key := range mine {
		use(i, key)
	}
	b.keys = b.keys[:others]
}

// value writes a JSON value without secrets, with long texts cut. It stops and
// returns false once all values together are too large.
func (b *body) value(v any, depth int) bool {
	b.size += 8
	if depth > maxDepth {
		b.raw(`"[too deep]"`)
		return true
	}
	switch v := v.(type) {
	case string:
		s := clip(b.r.text(v), maxString)
		b.size += len(s)
		b.text = appendString(b.text, s)
	case map[string]any:
		b.raw(`{`)
		b.sorted(v, func(i int, key string) {
			if b.size <= maxArgs {
				b.member(i, key, v[key], depth)
			}
		})
		b.raw(`}`)
	case []any:
		b.raw(`[`)
		for i, e := range v {
			if i > 0 {
				b.raw(`,`)
			}
			if !b.value(e, depth+1) {
				break
			}
		}
		b.raw(`]`)
	default:
		b.plain(v)
	}
	return b.size <= maxArgs
}

// member writes one entry of an object among the arguments.
func (b *body) member(i int, key string, v any, depth int) {
	if i > 0 {
		b.raw(`,`)
	}
	name := clip(b.r.text(key), maxName)
	b.size += len(name)
	b.text = append(appendString(b.text, name), ':')
	switch s, isText := v.(string); {
	case isText && (b.r.secrets || b.r.looks) && s != "" && sensitive(key):
		b.text = appendString(b.text, b.r.mark("secret", s))
	case depth == 0 && key == "env" && b.r.env:
		b.variables(v)
	default:
		b.value(v, depth+1)
	}
}

// variables writes the env argument of a call without its values.
func (b *body) variables(v any) {
	env, ok := v.(map[string]any)
	if !ok {
		b.value(v, 1)
		return
	}
	b.raw(`{`)
	b.sorted(env, func(i int, key string) {
		if b.size > maxArgs {
			return
		}
		if i > 0 {
			b.raw(`,`)
		}
		text, isText := env[key].(string)
		if !isText {
			text = fmt.Sprint(env[key])
		}
		name := clip(b.r.text(key), maxName)
		b.text = append(appendString(b.text, name), ':')
		b.text = appendString(b.text, b.r.mark("env", text))
		b.size += len(name) + 64
	})
	b.raw(`}`)
}

// plain writes a value that is neither a text nor made of other values.
func (b *body) plain(v any) {
	switch v := v.(type) {
	case nil:
		b.raw("null")
	case bool:
		b.text = strconv.AppendBool(b.text, v)
	case int:
		b.text = strconv.AppendInt(b.text, int64(v), 10)
	case float64:
		// Most numbers are whole; encoding/json writes the others.
		if whole := int64(v); float64(whole) == v && whole > -1e15 && whole < 1e15 {
			b.text = strconv.AppendInt(b.text, whole, 10)
			return
		}
		b.marshal(v)
	default:
		b.marshal(v)
	}
}

func (b *body) marshal(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(`"[not JSON]"`) // the value did not come from JSON
	}
	b.size += len(text)
	b.text = append(b.text, text...)
}

// list writes a field with the first texts of a list, without secrets.
func (b *body) list(name string, all []string) {
	if len(all) == 0 {
		return
	}
	b.name(name)
	b.raw(`[`)
	for i, s := range all {
		if i > 0 {
			b.raw(`,`)
		}
		if i == maxListed || b.size > maxArgs {
			b.text = appendString(b.text, fmt.Sprintf("... %d more", len(all)-i))
			break
		}
		s = clip(b.r.text(s), maxText)
		b.size += len(s)
		b.text = appendString(b.text, s)
	}
	b.raw(`]`)
}

// maxListed bounds the entries of one list.
const maxListed = 64

// args writes the arguments, or only their HMAC and size if the level is below request or
// they exceed maxArgs. args_level says which.
func (b *body) args(level policies.AuditLevel, args map[string]any) {
	start := len(b.text)
	if level >= policies.AuditRequest {
		b.str("args_level", level.String())
		if args == nil {
			return
		}
		b.name("args")
		b.size = 0
		if b.value(args, 0) {
			return
		}
		b.text = b.text[:start]
	}
	b.str("args_level", policies.AuditMeta.String())
	if args == nil {
		return
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return // args contains a value that did not come from JSON
	}
	b.str("args_hmac", b.r.mac(raw))
	b.num("args_bytes", int64(len(raw)))
}

// facts writes the facts of a decision without secrets. It leaves out the command if the
// argument command has the same text.
func (b *body) facts(f Facts, args map[string]any) {
	if same, ok := args["command"].(string); ok && same == f.Command {
		f.Command = ""
	}
	if f.empty() {
		return
	}
	b.name("facts")
	at := len(b.text)
	b.size = 0
	b.strIfSet("profile", clip(b.r.text(f.Profile), maxName))
	b.strIfSet("command", clip(b.r.text(f.Command), maxString))
	b.list("env", f.Env)
	b.list("paths", f.Paths)
	b.list("hosts", f.Hosts)
	b.list("urls", f.URLs)
	b.acts(f.Acts)
	b.strIfSet("upstream", f.Upstream)
	b.list("tool_names", f.ToolNames)
	if len(f.Annotations) > 0 {
		b.anyValue("annotations", f.Annotations)
	}
	b.text[at] = '{' // replaces the first comma
	b.raw(`}`)
}

// acts writes the acts of a browser without secrets.
func (b *body) acts(all []Act) {
	if len(all) == 0 {
		return
	}
	b.name("acts")
	b.raw(`[`)
	for i, a := range all[:min(len(all), maxListed)] {
		if i > 0 {
			b.raw(`,`)
		}
		b.raw(`{"kind":`)
		b.text = appendString(b.text, clip(b.r.text(a.Kind), maxName))
		for _, m := range [][2]string{{"on", a.On}, {"to", a.To}, {"method", a.Method}, {"field", a.Field}, {"secret", a.Secret}, {"path", a.Path}} {
			b.strIfSet(m[0], clip(b.r.text(m[1]), maxText))
		}
		b.raw(`}`)
	}
	if more := len(all) - maxListed; more > 0 {
		b.raw(fmt.Sprintf(`,{"kind":"... %d more"}`, more))
	}
	b.raw(`]`)
}

// safe are the bytes that a JSON string contains as they are.
var safe = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\' && c != 0x7f
	}
	return t
}()

// appendString writes a JSON string (RFC 8259, section 7). Bytes that are not UTF-8
// become U+FFFD. DEL is escaped, and so are the line separators that JSON allows in a
// string: a record is one line for every reader.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if safe[c] {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		size := 1
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < utf8.RuneSelf:
			b = append(b, `\u00`...)
			b = hex.AppendEncode(b, []byte{c})
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(b, `\ufffd`...)
			case r == '\u2028' || r == '\u2029':
				b = append(b, `\u202`...)
				b = append(b, "89"[r-'\u2028'])
			default:
				b = append(b, s[i:i+size]...)
			}
		}
		i += size
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

func (f Facts) empty() bool {
	return f.Profile == "" && f.Command == "" && f.Upstream == "" && len(f.Env)+len(f.Paths)+len(f.Hosts)+len(f.URLs)+len(f.Acts)+len(f.ToolNames)+len(f.Annotations) == 0
}
