package auth

import (
	"crypto/sha256"
	"crypto/subtle"
)

// Digest is the SHA-256 of the token that the operator gave to a tenant.
type Digest struct {
	Tenant string
	Sum    [sha256.Size]byte
}

// tenantOf returns the tenant that a token belongs to. It compares digests, and all of
// them: how long it takes says nothing about any.
func tenantOf(all []Digest, token string) (tenant string, known bool) {
	sum := sha256.Sum256([]byte(token))
	for i := range all {
		if subtle.ConstantTimeCompare(sum[:], all[i].Sum[:]) == 1 {
			tenant, known = all[i].Tenant, true
		}
	}
	return tenant, known
}
