package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Times of a bucket.
const (
	openWait   = 5 * time.Second  // time for opening or making the bucket
	firstWait  = 30 * time.Second // time for receiving all values
	lookEvery  = 2 * time.Second
	silentWait = 10 * time.Second // time after which a bucket that does not answer is given up
)

// replicas is how many servers keep each value, if there are that many servers.
const replicas = 3

// ErrConflict is the error of Bucket.Put if the value has another revision.
var ErrConflict = errors.New("another writer has changed the value")

// Item is a value in a bucket.
type Item struct {
	Key      string
	Value    []byte
	Revision uint64 // number that grows with each change; 0 if the key has no value
}

// Bucket contains values that all fronts share. It is safe for concurrent use.
type Bucket struct {
	bus      *Bus
	name     string
	maxValue int

	mu   sync.Mutex
	open jetstream.KeyValue // guarded by mu: nil until Follow has opened the bucket
}

// Bucket returns the bucket with a name. Its values have at most maxValue bytes. Follow
// creates the bucket if needed.
func (b *Bus) Bucket(name string, maxValue int) *Bucket {
	return &Bucket{bus: b, name: name, maxValue: maxValue}
}

// errNotOpen is the error of a bucket before the first Follow.
var errNotOpen = errors.New("the bucket is not open yet")

func (b *Bucket) values() (jetstream.KeyValue, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return nil, errNotOpen
	}
	return b.open, nil
}

// Get returns the last value of a key, with revision 0 if the key has no value. It reads
// from the leader of the bucket, because another server may be behind.
func (b *Bucket) Get(ctx context.Context, key string) (Item, error) {
	values, err := b.values()
	if err != nil {
		return Item{}, err
	}
	e, err := values.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return Item{}, nil
	case err != nil:
		return Item{}, fmt.Errorf("read from NATS: %w", err)
	}
	return Item{Key: key, Value: e.Value(), Revision: e.Revision()}, nil
}

// Put writes a value if the key still has the revision of i, and returns the next revision.
// After any error except ErrConflict, it is not known whether the value was written.
func (b *Bucket) Put(ctx context.Context, i Item) (uint64, error) {
	values, err := b.values()
	if err != nil {
		return 0, err
	}
	var revision uint64
	if i.Revision == 0 {
		revision, err = values.Create(ctx, i.Key, i.Value) // also works for a key that an operator has deleted
	} else {
		revision, err = values.Update(ctx, i.Key, i.Value, i.Revision)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
		return 0, ErrConflict
	case err != nil:
		return 0, fmt.Errorf("write to NATS: %w", err)
	}
	return revision, nil
}

// Follow calls each with every item, then caughtUp once with the age of the bucket, then
// each with every change. It returns when it may have missed a change, or when ctx ends.
func (b *Bucket) Follow(ctx context.Context, each func(Item), caughtUp func(age time.Duration)) error {
	ends := b.bus.ends() // taken before the first request, so that no end is missed
	opening, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	stream, err := b.make(opening)
	if err != nil {
		return fmt.Errorf("open the bucket %s of NATS: %w", b.name, err)
	}
	values, err := b.bus.stream.KeyValue(opening, b.name)
	if err != nil {
		return fmt.Errorf("open the bucket %s of NATS: %w", b.name, err)
	}
	b.mu.Lock()
	b.open = values
	b.mu.Unlock()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	w, err := values.WatchAll(watching)
	if err != nil {
		return fmt.Errorf("watch the bucket %s of NATS: %w", b.name, err)
	}
	defer func() {
		_ = w.Stop()
		// the sender of an update blocks until the update is received, and holds a lock
		// that Stop needs
		for range w.Updates() {
		}
	}()
	return b.follow(ctx, ends, stream, w, each, caughtUp)
}

func (b *Bucket) follow(ctx context.Context, ends <-chan struct{}, stream jetstream.Stream, w jetstream.KeyWatcher, each func(Item), caughtUp func(age time.Duration)) error {
	made, last, whole := stream.CachedInfo().Created, uint64(0), false
	first := time.NewTimer(firstWait)
	defer first.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	answered := time.Now()
	for {
		select {
		case e, open := <-w.Updates():
			switch {
			case !open:
				return errors.New("NATS has ended the watch")
			case e == nil:
				first.Stop()
				whole = true
				caughtUp(stream.CachedInfo().TimeStamp.Sub(made)) // age of the bucket when it was opened
			case e.Operation() == jetstream.KeyValuePut:
				last = max(last, e.Revision())
				each(Item{Key: e.Key(), Value: e.Value(), Revision: e.Revision()})
			case whole: // fronts never delete a value, and deleted values are not among the first values
				return fmt.Errorf("the key %q was deleted in the bucket %s of NATS", e.Key(), b.name)
			}
		case <-look.C:
			asking, cancel := context.WithTimeout(ctx, lookEvery)
			info, err := stream.Info(asking)
			cancel()
			switch {
			case err == nil && (!info.Created.Equal(made) || info.State.LastSeq < last):
				return fmt.Errorf("the bucket %s of NATS was replaced, or has lost values", b.name)
			case err == nil:
				answered = time.Now()
			case errors.Is(err, jetstream.ErrStreamNotFound) || time.Since(answered) > silentWait:
				return fmt.Errorf("check the bucket %s of NATS: %w", b.name, err)
			}
		case <-first.C:
			return fmt.Errorf("the bucket %s of NATS did not send its values in time", b.name)
		case <-ends:
			return errors.New("the connection to NATS has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// make creates the stream of a bucket, or returns the existing one. It is like the stream
// of any bucket, but only its leader is read.
func (b *Bucket) make(ctx context.Context) (jetstream.Stream, error) {
	want := jetstream.StreamConfig{
		Name: "KV_" + b.name, Subjects: []string{"$KV." + b.name + ".>"}, Description: "belljar: shared by the fronts of a fleet",
		MaxMsgsPerSubject: 1, MaxMsgSize: int32(b.maxValue), Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true,
		Storage: jetstream.FileStorage, Replicas: 1,
	}
	if len(b.bus.conn.Servers()) >= replicas {
		want.Replicas = replicas
	}
	stream, err := b.bus.stream.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		stream, err = b.bus.stream.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another front was faster
			return b.bus.stream.Stream(ctx, want.Name)
		}
		return stream, err
	case err != nil:
		return nil, err
	}
	// the bucket was made when there were fewer servers
	if has := stream.CachedInfo().Config; has.Replicas < want.Replicas {
		return b.bus.stream.UpdateStream(ctx, want)
	}
	return stream, nil
}
