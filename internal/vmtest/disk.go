package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
)

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// maxCache bounds what waits in the cache of a disk, in bytes. Data that do not
// fit go to where they are kept, as in a real one.
const maxCache = 16 << 20

// errOff is what a disk without power answers.
var errOff = errors.New("the disk has no power")

// errRange is a request for what the disk does not have.
var errRange = errors.New("beyond the end of the disk")

// disk is a disk with a cache. Only a flush has what was written before kept for
// certain. Its methods are safe for concurrent use.
type disk struct {
	mu    sync.Mutex
	off   bool
	seen  []byte   // what a read gives
	kept  []byte   // what a power cut leaves
	cache []change // between the two, the oldest first
	size  int      // of the cache in bytes

	left   int        // writes until the power goes; 0 does not count
	chance *rand.Rand // of what that leaves

	waited, gone int // sectors in the cache at the cuts, and those of them that were lost
}

// change is a write that waits.
type change struct {
	at   int64
	text []byte
}

func newDisk(content []byte) *disk {
	return &disk{seen: content, kept: slices.Clone(content)}
}

// read is a copy of a piece of the disk.
func (d *disk) read(size int, at int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(size, at); err != nil {
		return nil, err
	}
	return slices.Clone(d.seen[at : at+int64(size)]), nil
}

// write puts text, which is the disk's from now on.
func (d *disk) write(text []byte, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(len(text), at); err != nil {
		return err
	}
	copy(d.seen[at:], text)
	d.cache, d.size = append(d.cache, change{at, text}), d.size+len(text)
	for d.size > maxCache {
		d.size -= len(d.cache[0].text)
		copy(d.kept[d.cache[0].at:], d.cache[0].text)
		d.cache = d.cache[1:]
	}
	if d.left > 0 {
		if d.left--; d.left == 0 {
			d.lose(d.chance)
			return errOff
		}
	}
	return nil
}

// flush returns when all that was written is kept.
func (d *disk) flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return errOff
	}
	for _, c := range d.cache {
		copy(d.kept[c.at:], c.text)
	}
	d.cache, d.size = nil, 0
	return nil
}

func (d *disk) check(size int, at int64) error {
	switch {
	case d.off:
		return errOff
	case at < 0 || at > int64(len(d.seen)) || int64(size) > int64(len(d.seen))-at:
		return errRange
	}
	return nil
}

// cut takes the power away, if it is there. Of what is in the cache each sector
// is kept or lost by chance, and how good the chance is, too, so that now and
// then all or nothing of it is there.
func (d *disk) cut(random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		d.lose(random)
	}
}

// cutAt cuts the power at the n-th write from now on, before its flush.
func (d *disk) cutAt(n int, random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.chance = n, random
}

// lose is cut without the lock; mu is held.
func (d *disk) lose(random *rand.Rand) {
	chance := 1.5*random.Float64() - 0.25
	for _, c := range d.cache {
		for piece := range slices.Chunk(c.text, sector) {
			d.waited++
			if random.Float64() < chance {
				copy(d.kept[c.at:], piece)
			} else {
				d.gone++
			}
			c.at += int64(len(piece))
		}
	}
	d.off, d.left, d.cache, d.size = true, 0, nil, 0
	copy(d.seen, d.kept)
}

// on gives the power back.
func (d *disk) on() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
}
