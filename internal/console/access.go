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
	codeLife   = time.Minute // how long a code can be used
	maxCodes   = 16          // number of codes that were not used yet
	maxWrong   = 10          // number of wrong codes; then nobody can log in for lockedFor
	lockedFor  = time.Minute
	tokenLife  = 12 * time.Hour
	tokenBytes = 32
	maxTokens  = 64 // number of tokens; a further one ends the oldest
	maxOwn     = 8  // number of tokens of a person who did not log in by a code; a further one ends that person's oldest
)

// Person is a person who has logged in.
type Person struct {
	Name  string // name for the audit log
	Role  Role
	Scope Scope
	Until time.Time // when the token ends

	sum    sha256sum      // SHA-256 of the token
	known  sha256sum      // SHA-256 of the person's own token, or of their identity; zero for a login by a code
	claims map[string]any // claims that the provider has confirmed; nil for other logins
}

// Known is a person whom the policy allows to log in from other machines.
type Known struct {
	Name  string
	Role  Role
	Scope Scope
	Sum   [sha256.Size]byte // SHA-256 of the person's own token
}

// ownToken is the prefix of a person's own token, so that it is not confused with a code.
const ownToken = "bjp_"

// NewToken returns a new token for a person. It can be used for any number of logins.
func NewToken() string { return ownToken + secret() }

// secret returns a random text.
func secret() string {
	bytes := make([]byte, tokenBytes)
	_, _ = rand.Read(bytes) // never returns an error
	return base64.RawURLEncoding.EncodeToString(bytes)
}

type sha256sum = [sha256.Size]byte

// code is a code for one login.
type code struct {
	sum   sha256sum
	who   Person
	until time.Time
}

// Errors of a login.
var (
	errCode   = errors.New("this code is not valid (any more); ask for another one with `belljar console`")
	errToken  = errors.New("this token belongs to no person; the policy of the server lists the people who may log in, under console")
	errLocked = errors.New("there were too many wrong codes; wait a minute, and ask for another one with `belljar console`")
)

// access knows the codes that can be used and the people who have logged in. It keeps only
// digests, in memory. It is safe for concurrent use.
type access struct {
	mu     sync.Mutex
	codes  []code    // guarded by mu: unused codes, the oldest first
	people []Person  // guarded by mu: people who have logged in, the oldest login first
	wrong  int       // guarded by mu: number of wrong codes since the last login by a code
	locked time.Time // guarded by mu: nobody can log in by a code before this time
}

// code returns a new code for a person, and when it expires.
func (a *access) code(who Person) (text string, until time.Time) {
	text, until = rand.Text(), time.Now().Add(codeLife)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	if len(a.codes) >= maxCodes {
		a.codes = slices.Delete(a.codes, 0, 1)
	}
	a.codes = append(a.codes, code{sha256.Sum256([]byte(text)), who, until})
	return text, until
}

// login uses a code. It returns a new token for the person whom the code is for, and that
// person. The error is errCode or errLocked.
func (a *access) login(text string) (token string, who Person, err error) {
	now, sum := time.Now(), sha256.Sum256([]byte(text))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(now)
	if a.locked.After(now) {
		return "", who, errLocked
	}
	at := -1
	for i := range a.codes { // compares with all codes, so that the duration shows nothing
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
	token, who = a.admit(found.who)
	return token, who, nil
}

// loginKnown returns a new token for the person in list whose own token is own. ok is false
// if there is no such person.
func (a *access) loginKnown(own string, list []Known) (token string, who Person, ok bool) {
	sum := sha256.Sum256([]byte(own))
	at := -1
	for i := range list { // compares with all tokens, so that the duration shows nothing
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(list[i].Sum[:], sum[:]), i, at)
	}
	if at < 0 {
		return "", who, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	token, who = a.admit(Person{Name: list[at].Name, Role: list[at].Role, Scope: list[at].Scope, known: sum})
	return token, who, true
}

// admit adds a person, and returns a new token. The caller holds a.mu.
func (a *access) admit(who Person) (token string, _ Person) {
	token = secret()
	who.Until, who.sum = time.Now().Add(tokenLife), sha256.Sum256([]byte(token))
	over := -1
	if len(a.people) >= maxTokens {
		over = 0
	}
	if who.known != (sha256sum{}) {
		own := 0
		for i, p := range slices.Backward(a.people) {
			if p.known != who.known {
				continue
			}
			if own++; own >= maxOwn { // a viewer may do this too: it ends only logins of the same person
				over = i
			}
		}
	}
	if over >= 0 {
		a.people = slices.Delete(a.people, over, over+1)
	}
	a.people = append(a.people, who)
	return token, who
}

// enter is admit for a caller that does not hold a.mu.
func (a *access) enter(who Person) (token string, _ Person) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	return a.admit(who)
}

// expire removes codes and people whose time is over. The caller holds a.mu.
func (a *access) expire(now time.Time) {
	a.codes = slices.DeleteFunc(a.codes, func(c code) bool { return !c.until.After(now) })
	a.people = slices.DeleteFunc(a.people, func(p Person) bool { return !p.Until.After(now) })
}

// anybody reports whether at least one person is logged in.
func (a *access) anybody() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	return len(a.people) > 0
}

// holder returns the person who logged in with a token.
func (a *access) holder(token string) (who Person, ok bool) {
	return a.holderOf(sha256.Sum256([]byte(token)))
}

// holderOf is holder with the digest of the token.
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

// valid reports whether a token is accepted.
func (a *access) valid(sum sha256sum) bool {
	_, ok := a.holderOf(sum)
	return ok
}

// logout ends the token of a person.
func (a *access) logout(who Person) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.people = slices.DeleteFunc(a.people, func(p Person) bool { return p.sum == who.sum })
}
