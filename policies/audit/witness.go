package audit

import (
	"context"
	"encoding/json"
)

// Sighting is a checkpoint that a witness has kept of a log.
type Sighting struct {
	By string `json:"by"` // the name of the witness
	Signed
}

// Witnessed calls use with each record of a log about the log of a worker, from the first
// to the last. If worker is empty, it wants the records about all workers. It stops at the
// first error of use.
func Witnessed(ctx context.Context, dir, worker string, use func(Witness) error) error {
	return Read(ctx, dir, Filter{Kind: KindWitness}, func(e Entry) error {
		var w Witness
		if err := json.Unmarshal(e.Raw, &w); err != nil || worker != "" && w.Worker != worker {
			return nil //nolint:nilerr // Verify of the log reports a damaged record
		}
		return use(w)
	})
}

// NodeOf returns the node that the newest record of a log names, or "" if it names no node.
func NodeOf(ctx context.Context, dir string) (node string, err error) {
	_, _, err = ReadBack(ctx, dir, Cursor{}, Search{}, func(e Entry, _ Cursor) bool {
		var from struct {
			Node string `json:"node"`
		}
		if json.Unmarshal(e.Raw, &from) == nil {
			node = from.Node
		}
		return false
	})
	return node, err
}
