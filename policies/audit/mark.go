package audit

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/order"
	"belljar.dev/policies"
)

// redactor prepares records: it removes what a log must not contain before
// anything of the record is queued. It is safe for concurrent use.
type redactor struct {
	level        policies.AuditLevel
	secrets, env bool
	looks        bool // texts that look like secrets are removed, even if secrets is false
	emails       bool
	key          []byte // key of the HMACs
	macs         sync.Pool

	mu     sync.Mutex               // serialises add
	values atomic.Pointer[[]hidden] // spellings of the known secrets, longest first
}

// hidden is a spelling of a secret, and the secret's name.
type hidden struct{ text, name string }

// add removes a secret from all records from now on, in its own spelling and in
// those of URLs and base64. A secret is ignored if it is so short that ordinary
// text would contain it.
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
	order.By(all, func(a, b *hidden) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
	})
	r.values.Store(&all)
}

// mark returns the text that replaces a value. Equal values have equal marks, and marks
// cannot be made without the key.
func (r *redactor) mark(name, value string) string {
	return "[redacted " + name + " hmac:" + r.mac([]byte(value))[:16] + "]"
}

func (r *redactor) mac(text []byte) string {
	h, ok := r.macs.Get().(interface {
		Write([]byte) (int, error)
		Sum(to []byte) []byte
		Reset()
	})
	if !ok {
		h = hmac.New(sha256.New, r.key)
	}
	_, _ = h.Write(text) // never fails
	var sum [sha256.Size]byte
	hexed := hex.EncodeToString(h.Sum(sum[:0]))
	h.Reset()
	r.macs.Put(h)
	return hexed
}
