package auth

import "fmt"

// Reason is one word that says why a token is not accepted.
type Reason string

// Reasons for not accepting a token.
const (
	Malformed Reason = "malformed" // the token does not have the form of its kind
	Unknown   Reason = "unknown"   // no such token is known
	Expired   Reason = "expired"
	Revoked   Reason = "revoked"
	NoTenant  Reason = "tenant"    // no tenant belongs to the token, or the policy does not name the tenant
	Issuer    Reason = "issuer"    // the policy does not name the issuer
	Algorithm Reason = "algorithm" // the issuer must not use the algorithm
	Type      Reason = "type"      // the token is not an access token
	Key       Reason = "key"       // the issuer has no such key
	Signature Reason = "signature" // the key did not sign the token
	Audience  Reason = "audience"  // the token is for another server
	Claims    Reason = "claims"    // a claim is missing or invalid
)

// Refusal is the error for a token that is not accepted. Its text is for the operator: the
// client gets only the information that the token is not valid.
type Refusal struct {
	Reason Reason
	Whose  string // principal of the token, or its issuer; empty if it is not known
	Detail string
}

// Error returns what is wrong with the token.
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
