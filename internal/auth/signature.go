package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // for crypto.SHA256
	_ "crypto/sha512" // for crypto.SHA384 and crypto.SHA512
	"math/big"
	"strings"
)

// hashes contains the hash of an algorithm by the last three characters of its name (RFC 7518,
// 3.1). EdDSA hashes by itself.
var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// signed reports whether a token was signed with a key by an algorithm. The library that
// reads the keys can check signatures too, but it parses the whole token again, which
// takes a tenth of the time of a login.
func signed(token, alg string, key any) bool {
	end := strings.LastIndexByte(token, '.')
	if end < 0 || !fits(key, alg) {
		return false
	}
	text := []byte(token[:end])
	signature, err := fromBase64(token[end+1:])
	if err != nil {
		return false
	}
	if key, ok := key.(ed25519.PublicKey); ok {
		return ed25519.Verify(key, text, signature)
	}
	hash, known := hashes[alg[2:]] // fits knows each algorithm of such a key
	if !known {
		return false
	}
	digest := hash.New()
	digest.Write(text)
	sum := digest.Sum(nil)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		// The signature is R and S, each as long as the order of the curve (RFC 7518, 3.4).
		size := (key.Params().BitSize + 7) / 8
		if len(signature) != 2*size {
			return false
		}
		return ecdsa.Verify(key, sum, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	case *rsa.PublicKey:
		if strings.HasPrefix(alg, "PS") {
			return rsa.VerifyPSS(key, hash, sum, signature, nil) == nil
		}
		return rsa.VerifyPKCS1v15(key, hash, sum, signature) == nil
	}
	return false
}
