package act

import "context"

// Seat is a Chrome for one session and profile. Looks and steps of one seat run one
// at a time; its methods are safe for concurrent use.
type Seat struct{}

// Look says what a tab shows. It changes nothing of a page.
func (s *Seat) Look(context.Context, LookRequest) (*Look, error) { return nil, errNotYet() }

// Prepare reads, and only reads, what a step would do. An empty tab is the current one.
func (s *Seat) Prepare(ctx context.Context, tab string, step Step) (*Prepared, error) {
	return nil, errNotYet()
}

// Do carries out a step that was prepared, with the same tab and step but for its File.
// It reads the facts again and does nothing if they are not those of p, nor if p was
// used before. It returns once the page has settled, at most SettleTime after the act,
// or at once with a dialog.
func (s *Seat) Do(ctx context.Context, p *Prepared, step Step) (*Outcome, error) {
	return nil, errNotYet()
}

// Mask replaces the values of secrets that were typed in this seat in a text.
func (s *Seat) Mask(text string) string { return text }

// SecretsHere are the names of the secrets that may be typed in a document of a tab
// as it is now.
func (s *Seat) SecretsHere(tab string) []string { return nil }

// Close ends the Chrome and waits until nothing of it is left. What other callers wait
// for fails with ReasonClosed. Twice is fine.
func (s *Seat) Close() error { return nil }

// Verbs are the verbs that work, in the order of the constants.
func Verbs() []Verb { return nil }

// Check says what of a step cannot be, before anything of it runs.
func (s Step) Check() error { return errNotYet() }
