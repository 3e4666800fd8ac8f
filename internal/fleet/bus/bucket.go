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
	openWait   = 5 * time.Second  // for the bucket to be opened or made
	firstWait  = 30 * time.Second // for all that is in it
	lookEvery  = 2 * time.Second
	silentWait = 10 * time.Second // of a bucket that does not answer
)

// replicas is how many servers have each value where there are that many.
const replicas = 3

// ErrConflict is the error of Bucket.Put where the revision is another one.
var ErrConflict = errors.New("the value has changed meanwhile")

// Item is a value in a bucket.
type Item struct {
	Key      string
	Value    []byte
	Revision uint64 // grows with each change of the value; 0 for none
}

// Bucket is values that all fronts share. It is safe for concurrent use.
type Bucket struct {
	bus      *Bus
	name     string
	maxValue int

	mu   sync.Mutex
	open jetstream.KeyValue // guarded by mu: nil until it was followed once
}

// Bucket returns the bucket of a name, whose values have at most maxValue bytes. The bucket is
// made when it is followed.
func (b *Bus) Bucket(name string, maxValue int) *Bucket {
	return &Bucket{bus: b, name: name, maxValue: maxValue}
}

// errNotOpen is the error of a bucket that has not been followed.
var errNotOpen = errors.New("the bucket is not open yet")

func (b *Bucket) values() (jetstream.KeyValue, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return nil, errNotOpen
	}
	return b.open, nil
}

// Get returns the last value of a key, with revision 0 for a key without one. It asks the
// leader of the bucket: another server may be behind.
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

// Put writes a value if the revision of the key is still that of i, and returns the next one.
// After any error but ErrConflict, it is not known whether it was written.
func (b *Bucket) Put(ctx context.Context, i Item) (uint64, error) {
	values, err := b.values()
	if err != nil {
		return 0, err
	}
	var revision uint64
	if i.Revision == 0 {
		revision, err = values.Create(ctx, i.Key, i.Value) // also where an operator has deleted one
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

// Follow calls each with every item, then caughtUp once with the age of the bucket, then each
// with every change. It returns when it may have missed something, or ctx ends.
func (b *Bucket) Follow(ctx context.Context, each func(Item), caughtUp func(age time.Duration)) error {
	ends := b.bus.ends() // before the first question, so that no end is missed
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
		return fmt.Errorf("follow the bucket %s of NATS: %w", b.name, err)
	}
	defer func() {
		_ = w.Stop()
		for range w.Updates() { // the sender of one waits until it is taken, with a lock that Stop needs to end
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
				return errors.New("NATS has ended the following")
			case e == nil:
				first.Stop()
				whole = true
				caughtUp(stream.CachedInfo().TimeStamp.Sub(made)) // when it was opened
			case e.Operation() == jetstream.KeyValuePut:
				last = max(last, e.Revision())
				each(Item{Key: e.Key(), Value: e.Value(), Revision: e.Revision()})
			case whole: // no front deletes any; as it begins, deleted ones are not there
				return fmt.Errorf("somebody has deleted %q in the bucket %s of NATS", e.Key(), b.name)
			}
		case <-look.C:
			asking, cancel := context.WithTimeout(ctx, lookEvery)
			info, err := stream.Info(asking)
			cancel()
			switch {
			case err == nil && (!info.Created.Equal(made) || info.State.LastSeq < last):
				return fmt.Errorf("the bucket %s of NATS is not what it was", b.name)
			case err == nil:
				answered = time.Now()
			case errors.Is(err, jetstream.ErrStreamNotFound) || time.Since(answered) > silentWait:
				return fmt.Errorf("look after the bucket %s of NATS: %w", b.name, err)
			}
		case <-first.C:
			return fmt.Errorf("the bucket %s of NATS does not give its values", b.name)
		case <-ends:
			return errors.New("the connection to NATS has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// make makes the stream of a bucket, or returns the one that exists. It is as that of any
// bucket, but is read at its leader only.
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
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another front was first
			return b.bus.stream.Stream(ctx, want.Name)
		}
		return stream, err
	case err != nil:
		return nil, err
	}
	if has := stream.CachedInfo().Config; has.Replicas < want.Replicas { // it was made while there were fewer servers
		return b.bus.stream.UpdateStream(ctx, want)
	}
	return stream, nil
}
