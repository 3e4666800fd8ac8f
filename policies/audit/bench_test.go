package audit

import (
	"errors"
	"path/filepath"
	"testing"
)

// BenchmarkAppend is what a record costs the call, without waiting; the limit
// is 5 us. What the writer does meanwhile counts in the time of the machine,
// not of the call, and is what BenchmarkWriter measures.
func BenchmarkAppend(b *testing.B) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	d := decision(7)
	b.ReportAllocs()
	full := 0
	for b.Loop() {
		if err := l.Append(d); errors.Is(err, ErrFull) {
			full++
			b.StopTimer()
			if err := l.Sync(b.Context()); err != nil && !errors.Is(err, ErrFull) {
				b.Fatal(err)
			}
			b.StartTimer()
		} else if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(full), "full")
}

// BenchmarkEncode is the part of Append that is a record's own.
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

// BenchmarkWriter is the chain and the file, for batches of 100.
func BenchmarkWriter(b *testing.B) {
	w, err := openWriter(config(filepath.Join(b.TempDir(), "audit")))
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	r := newRedactor(2)
	line, err := encode("1", KindDecision, decision(7).prepared(r))
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

// BenchmarkCommit is a call that waits for the disk.
func BenchmarkCommit(b *testing.B) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	for b.Loop() {
		if err := l.Commit(b.Context(), decision(7)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite is a call that waits until a kill cannot lose its record.
func BenchmarkWrite(b *testing.B) {
	l := begin(b, config(filepath.Join(b.TempDir(), "audit")))
	for b.Loop() {
		if err := l.Write(b.Context(), decision(7)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify goes through a log of 200,000 records; 1,000,000 must take
// less than 10 s.
func BenchmarkVerify(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "audit")
	fill(b, config(dir), 200_000)
	var r Report
	for b.Loop() {
		r = verify(b, dir)
	}
	if r.Records < 200_000 {
		b.Fatalf("%+v", r)
	}
	b.ReportMetric(float64(r.Records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
