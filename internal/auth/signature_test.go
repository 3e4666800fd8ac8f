package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"belljar.dev/policies"
)

// privateKeys returns a new private key for each algorithm of policies.Algorithms. The
// algorithms of RSA share a key.
func privateKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	shared, err := rsa.GenerateKey(rand.Reader, leastRSABits)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]crypto.Signer)
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		all[alg] = key
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all["EdDSA"] = key
	for _, alg := range policies.Algorithms {
		if all[alg] == nil {
			all[alg] = shared
		}
	}
	return all
}

// A signature that another implementation has made is accepted for its algorithm and its
// key, and for no other. It is accepted in one form of its text.
func TestSignatures(t *testing.T) {
	keys, strangers := privateKeys(t), privateKeys(t)
	for _, alg := range policies.Algorithms {
		t.Run(alg, func(t *testing.T) {
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: keys[alg]}, nil)
			if err != nil {
				t.Fatal(err)
			}
			made, err := signer.Sign([]byte(`{"sub":"ann"}`))
			if err != nil {
				t.Fatal(err)
			}
			token, err := made.CompactSerialize()
			if err != nil {
				t.Fatal(err)
			}
			public := keys[alg].Public()
			if !signed(token, alg, public) {
				t.Fatalf("%s is not accepted", token)
			}
			for other, key := range keys {
				if other != alg && signed(token, other, public) {
					t.Errorf("it is accepted as one of %s", other)
				}
				for _, key := range []crypto.Signer{key, strangers[other]} {
					if !reflect.DeepEqual(key, keys[alg]) && signed(token, alg, key.Public()) {
						t.Errorf("it is accepted for another key, of %s", other)
					}
				}
			}
			end := strings.LastIndex(token, ".") + 1
			text, sig := token[:end], token[end:]
			raw, err := base64.RawURLEncoding.DecodeString(sig)
			if err != nil {
				t.Fatal(err)
			}
			half := len(raw) / 2
			changed := slices.Clone(raw)
			changed[half] ^= 1
			for what, sig := range map[string]string{
				"none":                    "",
				"another bit":             base64.RawURLEncoding.EncodeToString(changed),
				"a byte more":             base64.RawURLEncoding.EncodeToString(append(slices.Clone(raw), 0)),
				"a byte less":             base64.RawURLEncoding.EncodeToString(raw[:len(raw)-1]),
				"a zero before its half":  base64.RawURLEncoding.EncodeToString(slices.Concat(raw[:half], []byte{0}, raw[half:])),
				"a line end":              sig[:4] + "\r\n" + sig[4:],
				"padding":                 base64.URLEncoding.EncodeToString(raw) + "=",
				"a bit that nobody reads": loose(sig),
			} {
				if sig != base64.RawURLEncoding.EncodeToString(raw) && signed(text+sig, alg, public) {
					t.Errorf("accepted with %s: %q", what, sig)
				}
			}
			if signed("x"+token, alg, public) || signed(text+sig+"."+sig, alg, public) || signed(strings.ReplaceAll(token, ".", ""), alg, public) {
				t.Error("another text is accepted")
			}
		})
	}
	for _, alg := range []string{"", "RS", "ES", "RS1", "PS256 ", "rs256", "none", "HS256"} {
		if signed("a.b.cccc", alg, theRSAKey().Public()) {
			t.Errorf("the algorithm %q is accepted", alg)
		}
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]any{"of no known curve": p224.Public(), "that is too short": ed25519.PublicKey("short"), "of no kind": nil} {
		for _, alg := range []string{"", "ES256", "EdDSA", "RS256", "PS256"} {
			if signed("a.b.cccc", alg, key) {
				t.Errorf("the algorithm %q is accepted with a key %s", alg, name)
			}
		}
	}
}

// loose returns a text that some decoders of base64 take for the same bytes, or the same text
// if no other exists.
func loose(text string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if len(text)%4 == 0 {
		return text
	}
	last := len(text) - 1
	return text[:last] + string(letters[strings.IndexByte(letters, text[last])^1])
}
