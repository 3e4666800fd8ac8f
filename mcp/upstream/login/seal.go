package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"
)

// sealed is the encrypted form of a grant. Its JSON members are stored in databases, so
// their names must not change.
type sealed struct {
	Issuer   string    `json:"issuer"`
	Token    string    `json:"token"`
	Resource string    `json:"resource"`
	Client   string    `json:"client"`
	Secret   string    `json:"secret,omitempty"`
	Basic    bool      `json:"basic,omitempty"`
	Access   string    `json:"access,omitempty"`
	Refresh  string    `json:"refresh,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Renew    time.Time `json:"renew,omitzero"`
}

// errSealed is the error of a login that cannot be decrypted: it was moved, changed, or
// sealed with another key.
var errSealed = errors.New("the stored login cannot be decrypted with the key of this state directory")

// seal encrypts a login for its owner with AES-256-GCM. The result begins with a random
// nonce. A key may be used 2^32 times in this way (NIST SP 800-38D, section 8.3).
func seal(key []byte, owner Server, g *grant) ([]byte, error) {
	text, err := json.Marshal(sealed{
		Issuer: g.issuer, Token: g.token, Resource: g.resource, Client: g.client.id, Secret: g.client.secret.reveal(), Basic: g.client.basic,
		Access: g.access.reveal(), Refresh: g.refresh.reveal(), Expires: g.expires, Renew: g.renew,
	})
	if err != nil {
		return nil, err
	}
	box, name, err := boxFor(key, owner)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize())
	rand.Read(nonce)
	return box.Seal(nonce, nonce, text, name), nil
}

// open decrypts the login of an owner.
func open(key []byte, owner Server, text []byte) (*grant, error) {
	box, name, err := boxFor(key, owner)
	if err != nil {
		return nil, err
	}
	if len(text) < box.NonceSize() {
		return nil, errSealed
	}
	plain, err := box.Open(nil, text[:box.NonceSize()], text[box.NonceSize():], name)
	if err != nil {
		return nil, errSealed
	}
	var s sealed
	if json.Unmarshal(plain, &s) != nil {
		return nil, errSealed
	}
	return &grant{
		issuer: s.Issuer, token: s.Token, resource: s.Resource, client: identity{s.Client, NewToken(s.Secret), s.Basic},
		access: NewToken(s.Access), refresh: NewToken(s.Refresh), expires: s.Expires, renew: s.Renew,
	}, nil
}

// boxFor returns the cipher, and the name of the owner as additional data. Without that
// name a login cannot be opened, so a row that somebody moves to another tenant, server or
// URL is worthless there.
func boxFor(key []byte, owner Server) (cipher.AEAD, []byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, err
	}
	name, err := json.Marshal([]string{"belljar login 1", owner.Tenant, owner.Name, owner.URL})
	return box, name, err
}
