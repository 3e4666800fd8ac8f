package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Digest returns a digest of a file's content, for example "sha256:9f86d0...". A person who
// agrees to a file agrees to its digest.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Layer contains the entries of one file, and says who can write that file.
type Layer struct {
	Trusted bool // only the operator can write the file; false for files of a workspace
	Entries []Entry
}

// Merge combines layers, the operator's first. A later entry replaces an earlier entry of
// the same name as a whole, and takes its place in the order: no key of the earlier entry
// remains, so a person reads in one file exactly what runs.
//
// Merge does not decide which layer may replace which. Source.Hides of an entry names the
// replaced entries, for a question to a person or a refusal.
func Merge(layers ...Layer) []Entry {
	var all []Entry
	for _, l := range layers {
		for _, e := range l.Entries {
			e.Source.Trusted = l.Trusted
			at := slices.IndexFunc(all, func(have Entry) bool { return have.Name == e.Name })
			if at < 0 {
				all = append(all, e)
				continue
			}
			below := all[at].Source
			further := below.Hides
			below.Hides = nil
			e.Source.Hides = append([]Source{below}, further...)
			all[at] = e
		}
	}
	return all
}
