package egress

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of the values of secrets that a door keeps.
const (
	maxValue    = 8 << 10          // bytes of one value
	maxValues   = 64               // number of fetched values
	maxMasks    = 256              // number of values that are looked for, including older values of a secret
	valueLife   = 10 * time.Second // time after which a value is fetched again
	maxFetching = 15 * time.Second
)

// vault keeps the values of secrets for valueLife. It remembers maxMasks values, so that
// answers can be searched for them: the newest value of each secret, and older ones. No
// error and no record contains a value.
type vault struct {
	fetch func(ctx context.Context, name string) (string, error) // nil if no secrets exist
	slot  chan struct{}                                          // full while a fetch runs

	mu     sync.Mutex
	values map[string]value
	masks  []mask             // the value that was fetched last is at the end
	ready  map[string]*masker // maskers of masks, by the names of their secrets; cleared if masks changes

	turn sync.Mutex // held while a search by masks runs
}

type value struct {
	text  string
	until time.Time
}

func newVault(fetch func(ctx context.Context, name string) (string, error)) *vault {
	return &vault{fetch: fetch, slot: make(chan struct{}, 1), values: make(map[string]value), ready: make(map[string]*masker)}
}

// value returns the value of a secret. One fetch runs at a time, so that a burst
// of requests does not start a burst of programs on the host.
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
		return "", fmt.Errorf("secret %s: its value did not arrive in time", name)
	}
	if text, ok := v.known(name); ok {
		return text, nil
	}
	text, err := v.fetch(ctx, name)
	if err != nil {
		// The cause could contain what a program printed, so it is left out here.
		// The operator finds it in the log of the code that fetches values.
		return "", fmt.Errorf("secret %s: its value cannot be read", name)
	}
	text = strings.TrimRight(text, "\r\n") // files, and the output of programs, end with a line end
	if err := checkValue(text); err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	v.keep(name, text)
	return text, nil
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
	if _, again := v.values[name]; !again && len(v.values) >= maxValues {
		clear(v.values)
	}
	v.values[name] = value{text, time.Now().Add(valueLife)}
	if i := slices.IndexFunc(v.masks, func(m mask) bool { return m.name == name && m.value == text }); i >= 0 {
		m := v.masks[i]
		v.masks = append(slices.Delete(v.masks, i, i+1), m)
		return
	}
	if len(v.masks) >= maxMasks {
		v.forget()
	}
	v.masks = append(v.masks, newMask(name, text))
	clear(v.ready)
}

// forget drops the oldest value that its secret does not have any more. If there is no such
// value, it drops the oldest one. mu must be held.
func (v *vault) forget() {
	newest := make(map[string]int, len(v.masks))
	for i := range v.masks {
		newest[v.masks[i].name] = i
	}
	oldest := 0
	for i := range v.masks {
		if newest[v.masks[i].name] != i {
			oldest = i
			break
		}
	}
	v.masks = slices.Delete(v.masks, oldest, oldest+1)
}

// masker returns a masker for all fetched values of the named secrets, or of all secrets if
// no name is given. It is nil if there is nothing to look for.
func (v *vault) masker(names ...string) *masker {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := strings.Join(names, "\x00")
	m, ok := v.ready[key]
	if !ok {
		m = newMasker(slices.DeleteFunc(slices.Clone(v.masks), func(k mask) bool {
			return len(names) > 0 && !slices.Contains(names, k.name)
		}))
		if m != nil {
			m.turn = &v.turn
		}
		if len(v.ready) >= maxValues {
			clear(v.ready)
		}
		v.ready[key] = m
	}
	return m
}

// Redact returns s with the values of secrets replaced by their names, in whatever way the
// values are escaped. It knows 256 values that were fetched for requests: the newest value
// of each secret, and older ones.
func (d *Door) Redact(s string) string { return d.vault.masker().hide(s) }
