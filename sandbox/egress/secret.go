package egress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
)

// Bounds of the values of secrets that a door holds.
const (
	maxValue    = 8 << 10          // bytes of one
	maxValues   = 64               // fetched ones
	maxMasks    = 256              // values that are looked for, older ones of a secret among them
	valueLife   = 10 * time.Second // after which a value is fetched again
	maxFetching = 15 * time.Second
)

// vault holds the values of secrets for a moment, and knows all that it ever
// held, so that they can be kept out of what is shown. No value stands in an
// error or a record.
type vault struct {
	fetch func(ctx context.Context, name string) (string, error) // nil for none
	slot  chan struct{}                                          // whoever fetches holds it

	mu     sync.Mutex
	values map[string]value
	masks  []mask
}

type value struct {
	text  string
	until time.Time
}

func newVault(fetch func(ctx context.Context, name string) (string, error)) *vault {
	return &vault{fetch: fetch, slot: make(chan struct{}, 1), values: make(map[string]value)}
}

// value is the value of a secret. One fetch runs at a time, so that a burst of
// requests does not become a burst of programs on the host.
func (v *vault) value(ctx context.Context, name string) (string, error) {
	if text, ok := v.known(name); ok {
		return text, nil
	}
	if v.fetch == nil {
		return "", fmt.Errorf("secret %s: no secrets are kept here", name)
	}
	ctx, cancel := context.WithTimeout(ctx, maxFetching)
	defer cancel()
	select {
	case v.slot <- struct{}{}:
		defer func() { <-v.slot }()
	case <-ctx.Done():
		return "", fmt.Errorf("secret %s: its value did not come in time", name)
	}
	if text, ok := v.known(name); ok {
		return text, nil
	}
	text, err := v.fetch(ctx, name)
	if err != nil {
		// The cause is for the operator, who finds it where the value is
		// fetched; here it could repeat what a program printed.
		return "", fmt.Errorf("secret %s: its value cannot be read", name)
	}
	text = strings.TrimRight(text, "\r\n") // as files and programs end
	if err := checkValue(text); err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	v.keep(name, text)
	return text, nil
}

// checkValue refuses what cannot stand in a header (RFC 9110, 5.5): a line
// break would begin another one.
func checkValue(text string) error {
	switch {
	case text == "":
		return errors.New("its value is empty")
	case len(text) > maxValue:
		return fmt.Errorf("its value has %d bytes; a header takes at most %d", len(text), maxValue)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return errors.New("its value holds a line break or another control character, which cannot stand in a header")
		}
	}
	return nil
}

func (v *vault) known(name string) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.values[name]
	return known.text, ok && time.Now().Before(known.until)
}

func (v *vault) keep(name, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old, again := v.values[name]
	if !again && len(v.values) >= maxValues {
		clear(v.values)
	}
	v.values[name] = value{text, time.Now().Add(valueLife)}
	if again && old.text == text {
		return
	}
	for _, m := range v.masks {
		if m.value == text {
			return
		}
	}
	if len(v.masks) >= maxMasks {
		v.masks = v.masks[1:]
	}
	v.masks = append(v.masks, newMask(name, text))
}

// seen are the masks of all values that were handed out.
func (v *vault) seen() []mask {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]mask(nil), v.masks...)
}

// Redact is s with the values of secrets replaced by their names, also where
// they are escaped as in a URL or in base64. It knows the values that the door
// added to requests, the last 256 of them.
func (d *Door) Redact(s string) string {
	for _, m := range d.vault.seen() {
		s = m.hide(s)
	}
	return s
}

// added are headers with secrets, for one request.
type added struct {
	fields []field
	masks  []mask // of what must not come back
	names  string // of the secrets, for records
}

// secrets are the headers that the policy adds to a request of the flow. A
// request in the clear gets none where only a rule about every host, or none
// about this port, lets it through: who wrote the rule has to have meant that
// host.
func (f *flow) secrets(ctx context.Context, scheme, method, path string) (added, error) {
	var a added
	if scheme == "http" && !f.snap.namesPlain(f.rec.Host, f.rec.Port) {
		return a, nil
	}
	for _, s := range f.snap.Headers(f.rec.Host, method, path) {
		text, err := f.d.vault.value(ctx, s.Secret)
		if err != nil {
			return added{}, err
		}
		a.fields = append(a.fields, field{s.Header, strings.ReplaceAll(s.Value, "${secret:"+s.Secret+"}", text)})
		a.masks = append(a.masks, newMask(s.Secret, text))
		if a.names != "" {
			a.names += ","
		}
		a.names += s.Secret
	}
	return a, nil
}

// namesPlain reports whether a rule names the host, and not just every host,
// for a port on which requests go in the clear.
func (s *snapshot) namesPlain(h policies.Host, port uint16) bool {
	if port == 443 {
		return false
	}
	for _, r := range s.Allow {
		below, wild := strings.CutPrefix(r.Host, "*")
		named := wild && below != "" && strings.HasSuffix(h.Name(), below)
		if !wild {
			exact, err := policies.ParseHost(r.Host)
			named = err == nil && exact == h
		}
		for _, p := range r.Ports {
			if named && p == port {
				return true
			}
		}
	}
	return s.AllowsPrivate(h, port)
}
