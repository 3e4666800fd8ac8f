package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
)

// sector is the number of bytes that a disk writes completely or not at all.
const sector = 512

// maxCache is the size of a disk's cache, in bytes. When it is full, the oldest data are
// written to the disk itself, as in a real disk.
const maxCache = 16 << 20

// errOff is the error of a disk without power.
var errOff = errors.New("the disk has no power")

// errRange is the error of a request beyond the end of the disk.
var errRange = errors.New("beyond the end of the disk")

// disk is a disk with a cache. Only a flush guarantees that earlier writes survive a power
// cut. Its methods are safe for concurrent use.
type disk struct {
	mu    sync.Mutex
	off   bool
	seen  []byte   // contents that a read returns
	kept  []byte   // contents that survive a power cut
	cache []change // writes that are in seen and not in kept, the oldest first
	size  int      // number of bytes in the cache

	left   int        // number of writes until the power is cut; 0 means no cut
	chance *rand.Rand // decides which sectors survive that cut

	waited, gone int // number of sectors in the cache at all cuts, and how many of them were lost
}

// change is a write in the cache.
type change struct {
	at   int64
	text []byte
}

func newDisk(content []byte) *disk {
	return &disk{seen: content, kept: slices.Clone(content)}
}

// read returns a copy of a part of the disk.
func (d *disk) read(size int, at int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(size, at); err != nil {
		return nil, err
	}
	return slices.Clone(d.seen[at : at+int64(size)]), nil
}

// write writes text to the disk. The caller must not change text afterwards.
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

// flush makes all earlier writes survive a power cut.
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

// cut cuts the power if it is on. Each sector in the cache survives with a random
// probability, which is chosen anew at each cut, so that sometimes all sectors or none
// survive.
func (d *disk) cut(random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		d.lose(random)
	}
}

// cutAt cuts the power at the n-th write from now on, before the next flush.
func (d *disk) cutAt(n int, random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.chance = n, random
}

// lose cuts the power; the caller holds mu.
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

// on switches the power on again.
func (d *disk) on() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
}
