package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// Bounds of the records that wait to be written.
const (
	maxQueued      = 16 << 10 // records
	maxQueuedBytes = 16 << 20
	// maxLine bounds one record, in bytes. A reader needs no longer buffer.
	maxLine = 1 << 20
)

// Records for which no caller waits are gathered: each write to the file takes a lock and
// four system calls, which is more than the rest of a record. The time of gathering is so
// long that the first write of a process, which also compares the log with its checkpoint,
// usually comes after the first answer of a server. A process that is killed loses the
// records that it has gathered.
const (
	gather     = 5 * time.Millisecond
	gatherMost = 256 // records
)

// A checkpoint is due after signEvery records, and signAfter after records that are not
// signed.
const (
	signEvery = 1000 // records
	signAfter = time.Minute
)

// Errors that callers may test for with errors.Is.
var (
	// ErrClosed is returned by the methods of a closed Log that write: Append, Write, Commit,
	// Sync and Sign.
	ErrClosed = errors.New("audit log: closed")
	// ErrFull is returned immediately if too many records wait to be written.
	ErrFull = errors.New("audit log: too many records wait to be written")
)

// Config says how a Log is kept.
type Config struct {
	// Dir is the directory of the log. Open makes it if it does not exist, readable
	// only by its owner. No box may be able to write to it.
	Dir string
	// Audit says what is kept. A field that is zero has its default, except the level: a
	// zero level is refused.
	Audit policies.Audit
	// Node is the name of this machine in every record. If it is empty, records name no
	// machine.
	Node string
	// Signed is called with each checkpoint that signs more than records about the logs of
	// other machines. It must not wait for anything. It may be nil.
	Signed func(Signed)
	// Log gets messages for the operator. If it is nil, there are no messages.
	Log *slog.Logger
}

// Log appends records. Its methods are safe for concurrent use, and several
// processes may have a Log of one directory.
type Log struct {
	cfg   Config
	red   redactor
	from  string        // see writerOf
	wake  chan struct{} // capacity 1: records must be written now
	soon  *time.Timer   // fires when gathered records must be written
	quit  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
	casts atomic.Uint64 // number of recordings that were begun
	w     *writer       // used only by the goroutine while it runs

	mu      sync.Mutex
	queue   []entry // guarded by mu
	bytes   int     // guarded by mu: bytes of the records in queue
	lost    loss    // guarded by mu: losses that are not stated yet
	stating bool    // guarded by mu: losses that take has returned are being written
	health  Health  // guarded by mu
	closed  bool    // guarded by mu
}

// entry is a record that waits, without its place in the chain. An entry without a line
// waits for the records before it.
type entry struct {
	line    []byte
	witness bool       // the record is about the log of another machine
	durable bool       // the record must be on the disk before done gets a value
	sign    bool       // a checkpoint must follow the record
	done    chan error // capacity 1; nil if no caller waits
}

// loss counts the records that could not be written and have not been stated yet.
type loss struct {
	count uint64
	since time.Time
	why   string
}

func (l *loss) add(n int, why error) {
	if n == 0 {
		return
	}
	if l.count == 0 {
		l.since, l.why = time.Now(), clip(why.Error(), maxName)
	}
	l.count += uint64(n)
}

// Open opens the log of a directory, or begins a new log. If a crash left a part of a
// record, Open cuts that part off and states it. Missing records are stated before the next
// record. The caller closes the Log.
func Open(cfg Config) (*Log, error) {
	if cfg.Audit.Level == policies.AuditNone {
		return nil, errors.New("open audit log: the level none writes no log")
	}
	d := policies.DefaultAudit(cfg.Audit.Level)
	if cfg.Audit.Fsync <= 0 {
		cfg.Audit.Fsync = d.Fsync
	}
	if cfg.Audit.Rotate <= 0 {
		cfg.Audit.Rotate = d.Rotate
	}
	if cfg.Audit.Keep <= 0 {
		cfg.Audit.Keep = d.Keep
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w, err := openWriter(cfg)
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return start(cfg, w), nil
}

// start returns a Log that writes with w.
func start(cfg Config, w *writer) *Log {
	l := &Log{
		cfg: cfg, w: w, from: writerOf(cfg),
		wake: make(chan struct{}, 1), soon: time.NewTimer(gather), quit: make(chan struct{}),
	}
	l.red.level, l.red.key = cfg.Audit.Level, w.keys.mac
	l.red.secrets, l.red.env = !cfg.Audit.PlainSecrets, !cfg.Audit.PlainEnv
	l.red.looks, l.red.emails = cfg.Audit.Tokens, cfg.Audit.Emails
	l.done.Go(l.run)
	return l
}

// Level returns how much of a call the log keeps.
func (l *Log) Level() policies.AuditLevel { return l.cfg.Audit.Level }

// Required reports whether a call must not run if its decision cannot be
// written.
func (l *Log) Required() bool { return l.cfg.Audit.Required }

// Check tries the log's private key, which Open only reads: trying it takes longer than
// everything else in Open. If the key is damaged, Check returns an error, and nothing signs
// the log.
func (l *Log) Check() error {
	if _, err := l.w.keys.signer(); err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	return nil
}

// Hide removes a secret from all records from now on. A mark with the name replaces it.
func (l *Log) Hide(name, value string) { l.red.add(name, value) }

// Append queues a record and does not wait. It fails with ErrFull or ErrClosed; lost
// records are counted, and the count is written when records can be written again. An
// answer of a person goes to the disk immediately, together with all records that wait.
func (l *Log) Append(r Record) error {
	_, said := r.(Approval)
	return l.put(r, entry{durable: said})
}

// Write appends a record and waits until it is written, so that the end of
// this process cannot lose it. An error, even that of ctx, means that the record
// may be lost.
func (l *Log) Write(ctx context.Context, r Record) error { return l.wait(ctx, r, entry{}) }

// Commit is like Write, but the record is on the disk when Commit returns.
func (l *Log) Commit(ctx context.Context, r Record) error {
	return l.wait(ctx, r, entry{durable: true})
}

// Sync waits until all records that were appended before are on the disk. It returns an
// error if some of them are not.
func (l *Log) Sync(ctx context.Context) error { return l.wait(ctx, nil, entry{durable: true}) }

// Sign waits until a checkpoint signs all that was appended before.
func (l *Log) Sign(ctx context.Context) error { return l.wait(ctx, nil, entry{sign: true}) }

// Close writes the records that wait, signs them and waits for the disk. If the log cannot
// be written, that takes at most five seconds. Close may be called twice, and both calls
// wait. An Append by another goroutine meanwhile fails with ErrClosed.
func (l *Log) Close() error {
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		close(l.quit)
	})
	l.done.Wait()
	return l.w.closeErr
}

func (l *Log) wait(ctx context.Context, r Record, e entry) error {
	e.done = make(chan error, 1)
	if err := l.put(r, e); err != nil {
		return err
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("audit log: wait for the disk: %w", context.Cause(ctx))
	}
}

// put queues a record; e says how it must be written.
func (l *Log) put(r Record, e entry) error {
	if r != nil {
		line, err := l.encode(r)
		if err != nil {
			l.lose(1, err)
			return err
		}
		e.line, e.witness = line, r.Kind() == KindWitness
	}
	l.mu.Lock()
	var err error
	now, first := e.done != nil || e.durable, false
	switch {
	case l.closed:
		err = ErrClosed
	case len(l.queue) >= maxQueued, l.bytes+len(e.line) > maxQueuedBytes:
		err = ErrFull
		if e.line != nil {
			l.lost.add(1, err)
			l.health.tally(0, 1, err)
		}
	default:
		l.queue = append(l.queue, e)
		l.bytes += len(e.line)
		now, first = now || len(l.queue) >= gatherMost, len(l.queue) == 1
	}
	l.mu.Unlock()
	switch {
	case err != nil:
	case now:
		select {
		case l.wake <- struct{}{}:
		default:
		}
	case first:
		l.soon.Reset(gather)
	}
	return err
}

// encode returns a record's line without its place in the chain.
func (l *Log) encode(r Record) ([]byte, error) {
	if _, ok := r.(quick); ok {
		return encode(l.from, r.Kind(), &l.red, r)
	}
	return encode(l.from, r.Kind(), &l.red, r.prepared(&l.red))
}

// lose counts records that will not be written.
func (l *Log) lose(n int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost.add(n, why)
	l.health.tally(0, n, why)
}

// take returns all entries that wait and the losses, and leaves free as the empty queue.
func (l *Log) take(free []entry) ([]entry, loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, lost := l.queue, l.lost
	clear(free) // release the lines
	l.queue, l.bytes, l.lost, l.stating = free[:0], 0, loss{}, lost.count > 0
	return batch, lost
}

// run writes the records that wait, until quit is closed.
func (l *Log) run() {
	var batch []entry
	var lost loss
	disk, sign := time.NewTimer(time.Hour), time.NewTimer(signAfter)
	disk.Stop()
	defer disk.Stop()
	defer sign.Stop()
	defer l.soon.Stop()
	write := func() {
		clean := !l.w.dirty
		if batch, lost = l.take(batch); len(batch) == 0 && lost.count == 0 {
			return // the records were already written with others, which were not gathered
		}
		l.flush(batch, lost)
		if clean && l.w.dirty {
			disk.Reset(l.cfg.Audit.Fsync)
		}
	}
	for {
		select {
		case <-l.wake:
			write()
		case <-l.soon.C:
			write()
		case <-disk.C:
			if err := l.w.sync(); err != nil {
				l.complain(err)
			}
		case <-sign.C:
			if err := l.w.checkpoint(); err != nil {
				l.complain(err)
			}
			sign.Reset(signAfter)
		case <-l.quit:
			batch, lost = l.take(batch)
			l.flush(batch, lost)
			l.w.close()
			return
		}
	}
}

// flush writes a batch and wakes the callers that wait for it.
func (l *Log) flush(batch []entry, lost loss) {
	n, err := l.w.write(batch, lost)
	whole, left := 0, 0
	for i, e := range batch {
		switch {
		case e.line == nil:
		case i < n:
			whole++
		default:
			left++
		}
	}
	l.mu.Lock()
	l.health.tally(whole, left, err)
	l.stating = false
	if err != nil {
		if lost.count > 0 && !l.w.stated {
			lost.add(left, err)
			lost.count += l.lost.count
			l.lost = lost
		} else {
			l.lost.add(left, err)
		}
	}
	l.mu.Unlock()
	if err != nil {
		l.complain(err)
	}
	for i, e := range batch {
		if e.done == nil {
			continue
		}
		if i < n {
			e.done <- nil
		} else {
			e.done <- fmt.Errorf("audit log: %w", err)
		}
	}
}

// complain reports an error to the operator, once for each series of failures.
func (l *Log) complain(err error) {
	if l.w.failing {
		return
	}
	l.w.failing = true
	l.cfg.Log.Error("the audit log cannot be written", "dir", l.cfg.Dir, "required", l.cfg.Audit.Required, "err", err)
}
