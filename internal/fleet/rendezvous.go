package fleet

import (
	"hash/fnv"
	"strings"
)

// rendezvous returns the worker of a list for a place: the worker with the highest digest.
// When a worker is added to the list or removed from it, only places of this worker move.
func rendezvous(names []string, place string) (best string) {
	var most uint64
	for _, name := range names {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name + "\x00" + place))
		sum := mix(h.Sum64())
		if best == "" || sum > most || sum == most && strings.Compare(name, best) < 0 {
			best, most = name, sum
		}
	}
	return best
}

// mix spreads the bits of a digest (the finalizer of MurmurHash3), because the names of
// workers differ little, and so do their FNV digests.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
