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

// Clean is a text without what a policy wants taken out of results. It finds
// what looks like it, as it does in records: what is spelt in another way, as in
// base64, stays. Safe for concurrent use.
func Clean(text string, what []policies.Redaction) string {
	r := redactor{
		looks: slices.Contains(what, policies.RedactTokens), emails: slices.Contains(what, policies.RedactEmails), key: cleanKey(),
	}
	return r.text(text)
}
