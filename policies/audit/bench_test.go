package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkCall measures what a call pays for its two records without waiting: the
// decision, with its arguments, and the outcome. The limit is 5 us for both together. The
// work that the writer does meanwhile counts in the time of the machine, not of the call,
// and BenchmarkWriter measures it.
func BenchmarkCall(b *testing.B) {
	exit := 0
	o := Outcome{
		CallID: "c-7", Tenant: "local", Session: "s-1", Tool: "Bash", BytesOut: 812,
		CommandEnd: CommandEnd{Exit: &exit, CPUMS: 12, MemPeak: 8 << 20},
		SHA256Out:  strings.Repeat("cd", 32), DurMS: 15,
	}
	appendAll(b, decision(7), o)
}

// BenchmarkAppend measures one of these records, the decision.
func BenchmarkAppend(b *testing.B) { appendAll(b, decision(7)) }

func appendAll(b *testing.B, records ...Record) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	b.ReportAllocs()
	waits := 0
	for b.Loop() {
		waits += appendEach(b, l, records)
	}
	b.ReportMetric(float64(waits), "full")
}

// appendEach appends records and returns how often the queue was full. The wait for a full
// queue is not measured.
func appendEach(b *testing.B, l *Log, records []Record) (waits int) {
	b.Helper()
	for _, r := range records {
		err := l.Append(r)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrFull) {
			b.Fatal(err)
		}
		waits++
		b.StopTimer()
		if err := l.Sync(b.Context()); err != nil && !errors.Is(err, ErrFull) {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	return waits
}

// BenchmarkEncode measures the part of Append that encodes the record.
func BenchmarkEncode(b *testing.B) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	d := decision(7)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.encode(d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriter measures the chain and the file, for batches of 100.
func BenchmarkWriter(b *testing.B) {
	w, err := openWriter(config(filepath.Join(b.TempDir(), "audit")))
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	r := newRedactor(2)
	line, err := encode("1", KindDecision, r, decision(7))
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]entry, 100)
	for i := range batch {
		batch[i].line = line
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := w.write(batch, loss{}); err != nil {
			b.Fatal(err)
		}
		n += len(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
}

// BenchmarkCommit measures a call that waits for the disk.
func BenchmarkCommit(b *testing.B) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	for b.Loop() {
		if err := l.Commit(b.Context(), decision(7)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite measures a call that waits until a kill cannot lose its record.
func BenchmarkWrite(b *testing.B) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	for b.Loop() {
		if err := l.Write(b.Context(), decision(7)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify verifies a log of 1,000,000 records, which must take less than 10 s, and
// verifies the same log after one of the records is changed.
func BenchmarkVerify(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "audit")
	cfg := config(dir)
	cfg.Audit.Keep = 1000
	fill(b, cfg, 1_000_000)
	b.Run("whole", func(b *testing.B) {
		var r Report
		for b.Loop() {
			r = verify(b, dir)
		}
		if r.Records < 1_000_000 {
			b.Fatalf("%+v", r)
		}
		b.ReportMetric(float64(r.Records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("changed", func(b *testing.B) {
		name, seq := spoil(b, dir)
		var fault *Fault
		for b.Loop() {
			if _, err := Verify(b.Context(), dir, Against{}); !errors.As(err, &fault) || fault.File != name || fault.Seq != seq {
				b.Fatalf("got %v, want record %d of %s", err, seq, name)
			}
		}
	})
}

// spoil changes a record in the middle of the newest full file. It returns the name of that
// file and the number of the record.
func spoil(b *testing.B, dir string) (name string, seq uint64) {
	b.Helper()
	full, err := list(dir, isFull)
	if err != nil || len(full) == 0 {
		b.Fatalf("%v %v", full, err)
	}
	name = full[len(full)-1]
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text := make([]byte, 4096)
	const middle = 32 << 20
	if _, err := f.ReadAt(text, middle); err != nil {
		b.Fatal(err)
	}
	from := bytes.IndexByte(text, '\n') + 1
	l, err := parseLine(text[from : from+1+bytes.IndexByte(text[from+1:], '\n')])
	at := bytes.Index(text[from:], []byte(`"verdict":"allow"`))
	if err != nil || at < 0 {
		b.Fatalf("%s: %v", text[from:], err)
	}
	if _, err := f.WriteAt([]byte(`"verdict":"allot"`), middle+int64(from+at)); err != nil {
		b.Fatal(err)
	}
	return name, l.seq
}
