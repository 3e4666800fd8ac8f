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

// tenantOf returns the tenant that the token with a digest belongs to. It always compares
// with all digests, so its duration shows nothing about them.
func tenantOf(all []Digest, sum [sha256.Size]byte) (tenant string, known bool) {
	for i := range all {
		if subtle.ConstantTimeCompare(sum[:], all[i].Sum[:]) == 1 {
			tenant, known = all[i].Tenant, true
		}
	}
	return tenant, known
}

// digestCredential is the prefix of the credentials of tokens that the policy knows by
// their digest.
const digestCredential = "digest:"
