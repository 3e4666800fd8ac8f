package sandbox

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"belljar.dev/sandbox/workspace"
)

// Changed is one path of an overlay workspace that changed.
type Changed struct {
	Path    string `json:"path"` // relative to /workspace
	PathB64 string `json:"path_b64,omitempty"`
	Kind    string `json:"kind"` // added, modified, deleted or mode
}

// Watch knows how an overlay workspace stood when it was made.
type Watch struct{ mark *workspace.Mark }

// Set is the name of the set that holds what the box writes into its overlay
// workspace; empty where it has none.
func (b *Box) Set() string {
	if b.lease == nil {
		return ""
	}
	return b.lease.ID
}

// Checkpoint remembers what the box's overlay workspace is now, where a command
// changed it since the box was opened or this was called last: it returns the
// name of the checkpoint, to which a person can roll back once the box is
// closed, or none. note says what changed it. It fails with ErrNoOverlay where
// the box has no such workspace, or the supervisor makes no checkpoints
// (Config.Checkpoints), and with workspace.ErrSkipped where it would take over 2
// seconds or 256 MiB. Concurrent is fine.
func (b *Box) Checkpoint(ctx context.Context, note string) (string, error) {
	if b.calls == nil {
		return "", ErrNoOverlay
	}
	return b.calls.Checkpoint(ctx, note)
}

// Watch remembers how the box's overlay workspace stands, to tell later what
// changed: for that it looks at all files that the box and those before it
// changed. It fails with ErrNoOverlay where the box has no such workspace.
func (b *Box) Watch() (*Watch, error) {
	if b.lease == nil {
		return nil, ErrNoOverlay
	}
	m, err := b.lease.Mark()
	if err != nil {
		return nil, err
	}
	return &Watch{m}, nil
}

// Changed is what changed since, by whichever command of the box, in the order
// of paths: the first most of it, and how many there are besides.
func (w *Watch) Changed(most int) (changed []Changed, more int, err error) {
	all, err := w.mark.Changes()
	if err != nil {
		return nil, 0, err
	}
	for i := range all {
		if i == most {
			return changed, len(all) - most, nil
		}
		c := Changed{Path: all[i].Path, Kind: string(all[i].Kind)}
		if !utf8.ValidString(c.Path) {
			c.PathB64 = base64.StdEncoding.EncodeToString([]byte(c.Path))
		}
		changed = append(changed, c)
	}
	return changed, 0, nil
}
