package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filled returns sectors that are filled with one letter.
func filled(letter byte, sectors int) []byte {
	return bytes.Repeat([]byte{letter}, sectors*sector)
}

// Flushed sectors survive every cut. Each other sector survives whole or not at all:
// sometimes all of them survive, and sometimes none.
func TestDiskLosesWhatWasNotFlushed(t *testing.T) {
	found := make(map[string]int)
	for seed := range uint64(200) {
		d := newDisk(filled('.', 4))
		if err := errors.Join(d.write(filled('a', 2), 0), d.flush(), d.write(filled('b', 2), sector)); err != nil {
			t.Fatal(err)
		}
		if got, err := d.read(4*sector, 0); err != nil || !bytes.Equal(got, slices.Concat(filled('a', 1), filled('b', 2), filled('.', 1))) {
			t.Fatalf("before the cut: %.4q, %v", got, err)
		}
		d.cut(rand.New(rand.NewPCG(seed, 0)))
		if err := d.write(filled('c', 1), 0); !errors.Is(err, errOff) {
			t.Fatalf("a write without power: %v, want %v", err, errOff)
		}
		if err := d.flush(); !errors.Is(err, errOff) {
			t.Fatalf("a flush without power: %v, want %v", err, errOff)
		}
		d.on()
		got, err := d.read(4*sector, 0)
		if err != nil {
			t.Fatal(err)
		}
		letters := ""
		for s := range slices.Chunk(got, sector) {
			if !bytes.Equal(s, filled(s[0], 1)) {
				t.Fatalf("a sector is neither one thing nor the other: %q", s)
			}
			letters += string(s[:1])
		}
		found[letters]++
	}
	if len(found) != 4 || found["aa.."] == 0 || found["abb."] == 0 || found["aab."] == 0 || found["ab.."] == 0 {
		t.Errorf("after the cuts there was %v, want aa.., ab.., aab. and abb.", found)
	}
}

// A cut at a write comes before the flush of that write.
func TestDiskIsCutAtAWrite(t *testing.T) {
	d := newDisk(filled('.', 4))
	d.cutAt(2, rand.New(rand.NewPCG(1, 0)))
	if err := errors.Join(d.write(filled('a', 1), 0), d.flush()); err != nil {
		t.Fatal(err)
	}
	if err := d.write(filled('b', 3), sector); !errors.Is(err, errOff) {
		t.Errorf("the second write: %v, want %v", err, errOff)
	}
	d.cut(nil) // the power is already off
	d.on()
	if got, err := d.read(sector, 0); err != nil || !bytes.Equal(got, filled('a', 1)) || d.waited != 3 {
		t.Errorf("what was flushed is %.4q, %v; %d sectors waited, want 3", got, err, d.waited)
	}
	if err := d.write(filled('c', 1), 0); err != nil {
		t.Errorf("a write with power again: %v", err)
	}
}

func TestDiskCacheIsBounded(t *testing.T) {
	d := newDisk(filled('.', 2))
	for range maxCache/(2*sector) + 1 {
		if err := d.write(filled('a', 2), 0); err != nil {
			t.Fatal(err)
		}
	}
	if d.size > maxCache || !bytes.Equal(d.kept, filled('a', 2)) {
		t.Errorf("%d bytes wait, at most %d may", d.size, maxCache)
	}
	for _, at := range []int64{-1, 2*sector + 1, 1 << 62} {
		if err := d.write(filled('a', 1), at); !errors.Is(err, errRange) {
			t.Errorf("a write at %d: %v, want %v", at, err, errRange)
		}
	}
}

// numbers returns numbers in network byte order.
func numbers(all ...any) []byte {
	var b bytes.Buffer
	for _, v := range all {
		_ = binary.Write(&b, binary.BigEndian, v)
	}
	return b.Bytes()
}

// TestNBD is a client that does what qemu does: it requests an option that is not offered,
// takes the disk, writes, flushes, reads and disconnects.
func TestNBD(t *testing.T) {
	d := newDisk(filled('.', 4))
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- d.speak(there)
		there.Close()
	}()
	request := func(command uint16, handle, at uint64, size uint32) []byte {
		return numbers(uint32(nbdRequest), uint16(0), command, handle, at, size)
	}
	reply := func(code uint32, handle uint64) []byte { return numbers(uint32(nbdReply), code, handle) }
	option := func(option, kind uint32, data ...any) []byte {
		text := numbers(data...)
		return append(numbers(uint64(nbdOptionReply), option, kind, uint32(len(text))), text...)
	}
	for _, step := range []struct {
		name       string
		send, want []byte
	}{
		{"greeting", nil, numbers(uint64(nbdMagic), uint64(nbdOption), uint16(3))},
		{"structured replies", numbers(uint32(nbdNewStyle|nbdNoZeroes), uint64(nbdOption), uint32(8), uint32(0)), option(8, repUnsupported)},
		{
			"go", append(numbers(uint64(nbdOption), uint32(optGo), uint32(6)), 0, 0, 0, 0, 0, 0),
			append(option(optGo, repInfo, uint16(0), uint64(4*sector), uint16(5)), option(optGo, repAck)...),
		},
		{"write", append(request(cmdWrite, 1, sector, sector), filled('a', 1)...), reply(0, 1)},
		{"flush", request(cmdFlush, 2, 0, 0), reply(0, 2)},
		{"read", request(cmdRead, 3, 0, 2*sector), slices.Concat(reply(0, 3), filled('.', 1), filled('a', 1))},
		{"read beyond the end", request(cmdRead, 4, 4*sector, 1), reply(22, 4)},
		{"trim", request(4, 5, 0, sector), reply(22, 5)},
	} {
		if len(step.send) > 0 { // a write of no bytes would wait for a reader, too
			if _, err := here.Write(step.send); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		got := make([]byte, len(step.want))
		if _, err := io.ReadFull(here, got); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, d)
		}
	}
	if _, err := here.Write(request(cmdDisconnect, 6, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the client left: %v", err)
	}
	here.Close()
	if !bytes.Equal(d.kept, slices.Concat(filled('.', 1), filled('a', 1), filled('.', 2))) {
		t.Error("what was flushed is not kept")
	}
}

// A client may be killed between any two bytes.
func TestNBDClientIsKilled(t *testing.T) {
	sent := slices.Concat(numbers(uint32(3), uint64(nbdOption), uint32(optGo), uint32(6)), make([]byte, 6),
		numbers(uint32(nbdRequest), uint16(0), uint16(cmdWrite), uint64(1), uint64(0), uint32(sector)), filled('a', 1))
	for n := range len(sent) + 1 {
		err := newDisk(filled('.', 4)).speak(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(sent[:n]), io.Discard})
		if err != nil {
			t.Errorf("after %d of %d bytes: %v", n, len(sent), err)
		}
	}
}

// FuzzNBD: whatever a client sends, the server ends and stays within its disk.
func FuzzNBD(f *testing.F) {
	hello := numbers(uint32(3), uint64(nbdOption), uint32(optGo), uint32(0))
	f.Add(append(hello, numbers(uint32(nbdRequest), uint16(0), uint16(cmdWrite), uint64(1), uint64(0), uint32(sector))...))
	f.Add(append(hello, numbers(uint32(nbdRequest), uint16(0), uint16(cmdRead), uint64(1), uint64(1)<<63, uint32(9))...))
	f.Add(numbers(uint32(0), uint64(nbdOption), uint32(optExportName), uint32(1<<31)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		d := newDisk(filled('.', 4))
		var got bytes.Buffer
		_ = d.speak(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(sent), &got})
		if len(d.seen) != 4*sector || len(d.kept) != 4*sector || d.size > len(sent) {
			t.Errorf("the disk has %d and %d bytes, and %d wait", len(d.seen), len(d.kept), d.size)
		}
	})
}

func TestWords(t *testing.T) {
	var w words
	enough := make(chan struct{})
	w.read(strings.NewReader("\r\nchecked 2\r\nsaid todo made 1\nsaid todo step 1\nlost plan saved a b: it is not there\nsaid plan enter a b\nkernel: x\nsaid plan saved a"), 1, enough)
	<-enough
	want := words{
		checked: true, rooms: 2, lost: []string{"plan saved a b: it is not there"},
		said: []string{"todo made 1", "todo step 1", "plan enter a b"}, steps: map[string]int{"todo": 2, "plan": 1}, noise: []string{"kernel: x"},
	}
	if d := cmp.Diff(want, w, cmp.AllowUnexported(words{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if w.enough(2) {
		t.Error("two steps of plan are enough, though the second line of it was cut")
	}
	p := power{said: map[string][]string{}, steps: map[string]int{}, lost: map[string][]string{}}
	for range recent {
		p.heard(&w)
	}
	if len(p.said["todo"]) != recent || p.steps["todo"] != 2*recent || len(p.lost["plan"]) != recent || !strings.Contains(p.lines(), "plan enter a b\n") {
		t.Errorf("%d steps of todo are looked for, want %d", len(p.said["todo"]), recent)
	}
}
