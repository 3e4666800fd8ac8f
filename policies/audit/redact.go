package audit

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"belljar.dev/policies"
)

// Bounds of what stands in a record.
const (
	maxName    = 200      // bytes of a name that somebody else chose
	maxText    = 4 << 10  // bytes of a reason, an error or a path
	maxString  = 16 << 10 // bytes of one text among the arguments
	maxArgs    = 64 << 10 // bytes of all arguments
	maxResult  = 64 << 10 // bytes of a result
	maxDepth   = 64       // of the arguments
	maxValues  = 1024     // secrets that are known
	leastValue = 6        // bytes of a secret that is looked for: a shorter one would be found everywhere
)

// redactor prepares records: it takes out what must not stand in a log before
// anything of it is queued. It is safe for concurrent use.
type redactor struct {
	level        policies.AuditLevel
	secrets, env bool
	key          []byte // of the HMACs

	mu     sync.Mutex               // serialises add
	values atomic.Pointer[[]hidden] // longest first
}

// hidden is a spelling of a secret.
type hidden struct{ text, name string }

// add has a secret taken out of all records from now on, as it is and as URLs
// and base64 spell it. One that is too short to be told from other text is
// left alone.
func (r *redactor) add(name, value string) {
	if len(value) < leastValue {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []hidden
	if now := r.values.Load(); now != nil {
		all = *now
	}
	if slices.ContainsFunc(all, func(h hidden) bool { return h.text == value && h.name == name }) || len(all) >= 4*maxValues {
		return
	}
	all = slices.Clone(all)
	raw := []byte(value)
	for _, text := range []string{value, url.QueryEscape(value), url.PathEscape(value), base64.StdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw)} {
		h := hidden{strings.TrimRight(text, "="), name}
		if text == value {
			h.text = value
		}
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b hidden) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
	})
	r.values.Store(&all)
}

// mark stands for a value that was taken out. Equal values have equal marks,
// and only the key can make them.
func (r *redactor) mark(name, value string) string {
	return "[redacted " + name + " hmac:" + r.mac([]byte(value))[:16] + "]"
}

func (r *redactor) mac(text []byte) string {
	h := hmac.New(sha256.New, r.key)
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// text is s without secrets.
func (r *redactor) text(s string) string {
	if !r.secrets || len(s) < leastValue {
		return s
	}
	if values := r.values.Load(); values != nil {
		for _, h := range *values {
			if strings.Contains(s, h.text) {
				s = strings.ReplaceAll(s, h.text, r.mark(h.name, h.text))
			}
		}
	}
	return r.tokens(s)
}

// value is a JSON value without secrets, with long texts cut. size grows by
// about what it takes.
func (r *redactor) value(v any, depth int, size *int) any {
	*size += 8
	if depth > maxDepth {
		return "[too deep]"
	}
	switch v := v.(type) {
	case string:
		s := clip(r.text(v), maxString)
		*size += len(s)
		return s
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			key, plain := clip(r.text(key), maxName), key
			*size += len(key)
			switch s, isText := e.(string); {
			case isText && r.secrets && s != "" && sensitive(plain):
				out[key] = r.mark("secret", s)
			case depth == 0 && plain == "env" && r.env:
				out[key] = r.variables(e, size)
			default:
				out[key] = r.value(e, depth+1, size)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = r.value(e, depth+1, size)
		}
		return out
	}
	return v
}

// variables is the env argument of a call with its values taken out.
func (r *redactor) variables(v any, size *int) any {
	env, ok := v.(map[string]any)
	if !ok {
		return r.value(v, 1, size)
	}
	out := make(map[string]any, len(env))
	for name, value := range env {
		text, isText := value.(string)
		if !isText {
			text = fmt.Sprint(value)
		}
		name = clip(r.text(name), maxName)
		out[name] = r.mark("env", text)
		*size += len(name) + 64
	}
	return out
}

// request fills in what a decision shows of its call.
func (r *redactor) request(line *decisionLine, d Decision) {
	if r.level < policies.AuditRequest {
		line.Reason = ""
		r.onlyMAC(line, d.Args)
		return
	}
	line.Reason = clip(line.Reason, maxText)
	line.Part = clip(r.text(d.Part), maxText)
	if f := r.facts(d); !f.empty() {
		line.Facts = &f
	}
	if d.Args == nil {
		return
	}
	size := 0
	line.Args = r.value(d.Args, 0, &size)
	if size > maxArgs {
		line.Args = nil
		r.onlyMAC(line, d.Args)
	}
}

// onlyMAC has the arguments stand as their HMAC.
func (r *redactor) onlyMAC(line *decisionLine, args map[string]any) {
	line.ArgsLevel = policies.AuditMeta.String()
	if args == nil {
		return
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return // of values that did not come from JSON
	}
	line.ArgsHMAC, line.ArgsBytes = r.mac(raw), len(raw)
}

// facts are those of a decision without secrets. A command that is the
// argument of that name is not said twice.
func (r *redactor) facts(d Decision) Facts {
	f := d.Facts
	if same, ok := d.Args["command"].(string); ok && same == f.Command {
		f.Command = ""
	}
	f.Profile, f.Command = clip(r.text(f.Profile), maxName), clip(r.text(f.Command), maxString)
	f.Env, f.Paths, f.Hosts, f.URLs = r.list(f.Env), r.list(f.Paths), r.list(f.Hosts), r.list(f.URLs)
	return f
}

// list is the first texts of a list without secrets.
func (r *redactor) list(all []string) []string {
	const most = 64
	if len(all) == 0 {
		return nil
	}
	out := make([]string, 0, min(len(all), most+1))
	for i, s := range all {
		if i == most {
			return append(out, fmt.Sprintf("... %d more", len(all)-most))
		}
		out = append(out, clip(r.text(s), maxText))
	}
	return out
}

// result is the text of a result, at the level that keeps it.
func (r *redactor) result(s string) string {
	if r.level < policies.AuditFull {
		return ""
	}
	return clip(r.text(s), maxResult)
}

// clip cuts s after most bytes, between characters, and says so.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	at := most
	for at > most-utf8.UTFMax && !utf8.RuneStart(s[at]) {
		at--
	}
	return fmt.Sprintf("%s...[%d bytes cut]", s[:at], len(s)-at)
}
