package control

import "testing"

// ShortBox cuts the part of an id that would allow the use of the session, and the ids of
// two boxes stay different.
func TestShortBox(t *testing.T) {
	const session = "s-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for id, want := range map[string]string{
		session:             "s-ABCDEFGHIJ",
		session + "-2":      "s-ABCDEFGHIJ-2",
		session + "-plan":   "s-ABCDEFGHIJ-plan",
		session + "-plan-2": "s-ABCDEFGHIJ-plan-2",
		"s-ABCDEFGHIJ":      "s-ABCDEFGHIJ",
		"s-ABCDEFGHIJ-2":    "s-ABCDEFGHIJ-2",
		"s-AB":              "s-AB",
		"browser-1":         "browser-1",
		"browser-1234567":   "browser-1234567",
		"":                  "",
	} {
		if got := ShortBox(id); got != want || ShortBox(got) != got {
			t.Errorf("%q: got %q, and of that %q, want %q twice", id, got, ShortBox(got), want)
		}
	}
}
