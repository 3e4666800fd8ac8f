package audit

import (
	"crypto/rand"
	"slices"
	"sync"

	"belljar.dev/policies"
)

// cleanKey returns the key for the marks of Clean, which is new in each process: equal
// values have equal marks in one run, and no mark can be matched with a mark in a log.
var cleanKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
})

// Clean returns a text without what a policy wants removed from results. Such texts are
// found by their form, as in records: a secret in another encoding, for example base64,
// stays. Clean is safe for concurrent use.
func Clean(text string, what []policies.Redaction) string {
	r := redactor{
		looks: slices.Contains(what, policies.RedactTokens), emails: slices.Contains(what, policies.RedactEmails), key: cleanKey(),
	}
	return r.text(text)
}
