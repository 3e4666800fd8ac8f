package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"
)

// Bounds of codes and tokens.
const (
	codeLife   = time.Minute // from the command that asked for it
	maxCodes   = 16          // that were not used yet
	maxWrong   = 10          // guesses; then nobody logs in for lockedFor
	lockedFor  = time.Minute
	tokenLife  = 12 * time.Hour
	tokenBytes = 32
	maxTokens  = 64 // a further one ends the oldest
)

// Person is somebody who has logged in.
type Person struct {
	Name  string // for the audit log
	Role  Role
	Until time.Time // when the token ends

	sum sha256sum // of the token
}

type sha256sum = [sha256.Size]byte

// code is good for one login.
type code struct {
	sum   sha256sum
	name  string
	role  Role
	until time.Time
}

// Errors of a login.
var (
	errCode   = errors.New("this code is not valid (any more); ask for another one with `belljar console`")
	errLocked = errors.New("there were too many wrong codes; wait a minute, and ask for another one with `belljar console`")
)

// access knows who may come. It keeps digests only, in memory. It is safe for concurrent
// use.
type access struct {
	mu     sync.Mutex
	codes  []code    // guarded by mu: the oldest first
	people []Person  // guarded by mu: with tokens, the oldest first
	wrong  int       // guarded by mu: codes since the last login
	locked time.Time // guarded by mu: until when nobody logs in
}

// code makes a code for a person.
func (a *access) code(name string, role Role) (text string, until time.Time) {
	text, until = rand.Text(), time.Now().Add(codeLife)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	if len(a.codes) >= maxCodes {
		a.codes = slices.Delete(a.codes, 0, 1)
	}
	a.codes = append(a.codes, code{sha256.Sum256([]byte(text)), name, role, until})
	return text, until
}

// login returns the token of the person whom a code is for, and who that is. The error is
// errCode or errLocked.
func (a *access) login(text string) (token string, who Person, err error) {
	now, sum := time.Now(), sha256.Sum256([]byte(text))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(now)
	if a.locked.After(now) {
		return "", who, errLocked
	}
	at := -1
	for i := range a.codes { // all of them, so that the time says nothing
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(a.codes[i].sum[:], sum[:]), i, at)
	}
	if at < 0 {
		if a.wrong++; a.wrong >= maxWrong {
			a.wrong, a.locked = 0, now.Add(lockedFor)
		}
		return "", who, errCode
	}
	found := a.codes[at]
	a.codes, a.wrong = slices.Delete(a.codes, at, at+1), 0
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // it never fails
	token = base64.RawURLEncoding.EncodeToString(secret)
	who = Person{Name: found.name, Role: found.role, Until: now.Add(tokenLife), sum: sha256.Sum256([]byte(token))}
	if len(a.people) >= maxTokens {
		a.people = slices.Delete(a.people, 0, 1)
	}
	a.people = append(a.people, who)
	return token, who, nil
}

// expire forgets what is over. The caller holds a.mu.
func (a *access) expire(now time.Time) {
	a.codes = slices.DeleteFunc(a.codes, func(c code) bool { return !c.until.After(now) })
	a.people = slices.DeleteFunc(a.people, func(p Person) bool { return !p.Until.After(now) })
}

// anybody reports whether somebody is logged in.
func (a *access) anybody() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	return len(a.people) > 0
}

// holder returns whose token it is.
func (a *access) holder(token string) (who Person, ok bool) {
	return a.holderOf(sha256.Sum256([]byte(token)))
}

// holderOf is holder by the digest of the token.
func (a *access) holderOf(sum sha256sum) (who Person, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	for _, p := range a.people {
		if subtle.ConstantTimeCompare(p.sum[:], sum[:]) == 1 {
			who, ok = p, true
		}
	}
	return who, ok
}

// logout ends the token of a person.
func (a *access) logout(who Person) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.people = slices.DeleteFunc(a.people, func(p Person) bool { return p.sum == who.sum })
}
