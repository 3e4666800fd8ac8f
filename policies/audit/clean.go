package audit

import (
	"crypto/rand"
	"slices"
	"sync"

	"belljar.dev/policies"
)

// cleanKey makes the marks of Clean, anew in each process: equal values have
// equal marks in one run, and nothing joins them with a log.
var cleanKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
})

// Clean returns a text without what a policy wants removed from results. As in
// records, it finds such things by their form: a secret in another encoding, for
// example base64, stays. Safe for concurrent use.
func Clean(text string, what []policies.Redaction) string {
	r := redactor{
		looks: slices.Contains(what, policies.RedactTokens), emails: slices.Contains(what, policies.RedactEmails), key: cleanKey(),
	}
	return r.text(text)
}
