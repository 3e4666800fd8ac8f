package act

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// key is a key to press, with its modifier keys.
type key struct {
	name string // name of the key, such as Enter or a
	text string // text that the key types; may be empty
	mods int64
	seq  []*input.DispatchKeyEventParams
}

var namedKeys = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"Space":      " ",
		"Enter":      kb.Enter,
		"Tab":        kb.Tab,
		"Escape":     kb.Escape,
		"Backspace":  kb.Backspace,
		"Delete":     kb.Delete,
		"ArrowUp":    kb.ArrowUp,
		"ArrowDown":  kb.ArrowDown,
		"ArrowLeft":  kb.ArrowLeft,
		"ArrowRight": kb.ArrowRight,
		"Home":       kb.Home,
		"End":        kb.End,
		"PageUp":     kb.PageUp,
		"PageDown":   kb.PageDown,
		"Insert":     kb.Insert,
		"F1":         kb.F1,
		"F2":         kb.F2,
		"F3":         kb.F3,
		"F4":         kb.F4,
		"F5":         kb.F5,
		"F6":         kb.F6,
		"F7":         kb.F7,
		"F8":         kb.F8,
		"F9":         kb.F9,
		"F10":        kb.F10,
		"F11":        kb.F11,
		"F12":        kb.F12,
	}
})

var modifiers = map[string]int64{"Alt": 1, "Control": 2, "Ctrl": 2, "Meta": 4, "Shift": 8}

// parseKey reads a key such as Control+a. If the text is not a key, why says what is wrong.
func parseKey(text string) (k key, why string) {
	rest := text
	for {
		mod, after, ok := strings.Cut(rest, "+")
		if !ok || after == "" {
			break
		}
		m, known := modifiers[mod]
		if !known {
			return k, "is not the name of a key"
		}
		k.mods |= m
		rest = after
	}
	one, named := namedKeys()[rest]
	if !named {
		one = rest
	}
	if utf8.RuneCountInString(one) != 1 {
		return k, "is not the name of a key"
	}
	r, _ := utf8.DecodeRuneInString(one)
	if !named && unicode.IsControl(r) { // kb makes keys such as Enter of some of them, and only names are judged as these keys
		return k, "is not the name of a key"
	}
	k.name = rest
	if rest == " " {
		k.name = "Space"
	}
	if k.mods&^8 == 0 && (!named || rest == "Space") {
		k.text = string(r)
	}
	encode := kb.Encode
	if !named && r > 0x7e {
		encode = kb.EncodeUnidentified // kb uses some of these characters for keys such as Alt
	}
	for _, e := range encode(r) {
		p := *e
		p.Modifiers |= k.mods
		if p.Type == kb.KeyChar && k.mods&^8 != 0 {
			continue // with Control or Alt, the key types nothing
		}
		k.seq = append(k.seq, &p)
	}
	return k, ""
}

// keysOf returns the events of keys with these names, one slice for each key.
func keysOf(names ...string) (all [][]*input.DispatchKeyEventParams) {
	for _, name := range names {
		k, _ := parseKey(name) // these names are our own, so they are valid
		all = append(all, k.seq)
	}
	return all
}
