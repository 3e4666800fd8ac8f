package auth

import "fmt"

// Reason is why a token is not accepted, in one word.
type Reason string

// The reasons.
const (
	Malformed Reason = "malformed" // it has not the form of its kind
	Unknown   Reason = "unknown"   // it belongs to nobody
	Expired   Reason = "expired"
	Revoked   Reason = "revoked"
	NoTenant  Reason = "tenant"    // there is no tenant for it, or the policy does not name it
	Issuer    Reason = "issuer"    // the policy does not name who made it
	Algorithm Reason = "algorithm" // its issuer does not sign so
	Type      Reason = "type"      // it is not an access token
	Key       Reason = "key"       // its issuer has no such key
	Signature Reason = "signature" // the key did not sign it
	Audience  Reason = "audience"  // it is for another server
	Claims    Reason = "claims"    // a claim is missing, or is not what it must be
)

// Refusal is the error of a token that is not accepted. Its text is for the operator: the
// client learns that the token is not valid.
type Refusal struct {
	Reason Reason
	Whose  string // the id of the token, if it has one that is known
	Detail string
}

// Error says what is wrong with the token.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("token refused (%s)", r.Reason)
	if r.Whose != "" {
		text = fmt.Sprintf("token of %s refused (%s)", r.Whose, r.Reason)
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

func refuse(why Reason, whose, format string, args ...any) *Refusal {
	return &Refusal{Reason: why, Whose: whose, Detail: fmt.Sprintf(format, args...)}
}
