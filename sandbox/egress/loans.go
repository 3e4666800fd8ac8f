package egress

import (
	"errors"
	"io"
	"sync"
	"time"

	"belljar.dev/policies"
)

const (
	loansMost = 64
	// loanLife is how long a loan is used. The limits of a profile are for the life of a
	// box; outside of a box they are for one hour of a tenant's calls.
	loanLife = time.Hour
)

// ErrCrowded is returned if so many tenants use doors at the same time that there is no
// room for one more. Nothing was opened.
var ErrCrowded = errors.New("too many tenants use the network at the same time; try again in a few seconds")

// Loans are the doors for calls that run outside of boxes: a Door, with what
// belongs to it, for each tenant, profile and egress policy. Connections are kept
// from call to call and never shared by tenants. Loans keeps at most 64, each for
// an hour. The zero value is ready to use; all methods are safe for concurrent
// use.
type Loans[T io.Closer] struct {
	mu     sync.Mutex
	all    map[loanKey]*Loan[T]
	closed bool
}

type loanKey struct {
	tenant, profile string
	egress          *policies.Egress
}

// Loan is one use of a value of Loans. The caller of Take returns it by Give.
type Loan[T io.Closer] struct {
	What T

	// Guarded by the mutex of the Loans.
	born, last time.Time
	uses       int
	gone       bool // whether its last user must close it
}

// Take returns the loan for a grant. If there is no such loan, it makes one by open, which
// must not block. The error is that of open, ErrCrowded or ErrClosed.
func (l *Loans[T]) Take(g policies.Grant, now time.Time, open func() (T, error)) (*Loan[T], error) {
	key := loanKey{g.Tenant(), g.Profile(), g.Egress()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	one := l.all[key]
	if one != nil && now.Sub(one.born) > loanLife {
		l.remove(key, one)
		one = nil
	}
	if one == nil {
		if len(l.all) >= loansMost && !l.makeRoom() {
			return nil, ErrCrowded
		}
		what, err := open()
		if err != nil {
			return nil, err
		}
		one = &Loan[T]{What: what, born: now}
		if l.all == nil {
			l.all = make(map[loanKey]*Loan[T])
		}
		l.all[key] = one
	}
	one.uses++
	one.last = now
	return one, nil
}

// Give returns a loan to the Loans.
func (l *Loans[T]) Give(one *Loan[T]) {
	l.mu.Lock()
	one.uses--
	last := one.uses == 0 && one.gone
	l.mu.Unlock()
	if last {
		one.What.Close()
	}
}

// remove removes a loan; mu must be held. It closes a loan that nobody uses, which waits
// only for idle connections.
func (l *Loans[T]) remove(key loanKey, one *Loan[T]) {
	delete(l.all, key)
	one.gone = true
	if one.uses == 0 {
		one.What.Close()
	}
}

// makeRoom removes the unused loan with the oldest last use, and reports whether
// it found one; mu must be held.
func (l *Loans[T]) makeRoom() bool {
	var oldest loanKey
	var found *Loan[T]
	for key, one := range l.all {
		if one.uses == 0 && (found == nil || one.last.Before(found.last)) {
			oldest, found = key, one
		}
	}
	if found != nil {
		l.remove(oldest, found)
	}
	return found != nil
}

// CloseIdle closes the loans that nobody uses.
func (l *Loans[T]) CloseIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, one := range l.all {
		if one.uses == 0 {
			l.remove(key, one)
		}
	}
}

// Close closes all loans; Take then returns ErrClosed. A user of a loan gets
// errors from it. Close may be called twice.
func (l *Loans[T]) Close() error {
	l.mu.Lock()
	all := l.all
	l.all, l.closed = nil, true
	l.mu.Unlock()
	var err error
	for _, one := range all {
		err = errors.Join(err, one.What.Close())
	}
	return err
}
