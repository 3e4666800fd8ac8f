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

// Watch is the state of an overlay workspace at one moment.
type Watch struct{ mark *workspace.Mark }

// Set returns the name of the set that contains what the box writes into its overlay
// workspace, or "" if it has no such workspace.
func (b *Box) Set() string {
	if b.means.lease == nil {
		return ""
	}
	return b.means.lease.ID
}

// Checkpoint saves the present state of the box's overlay workspace, if a command
// changed it since the box was opened or since the last call. It returns the name
// of the checkpoint, to which a person can roll back after the box was closed, or
// "". note says what changed the workspace. It fails with ErrNoOverlay if the box
// has no such workspace or Config.Checkpoints is not set, and with
// workspace.ErrSkipped if it would take over 2 seconds or 256 MiB. It may be
// called concurrently.
func (b *Box) Checkpoint(ctx context.Context, note string) (string, error) {
	if b.means.calls == nil {
		return "", ErrNoOverlay
	}
	return b.means.calls.Checkpoint(ctx, note)
}

// Watch records the state of the box's overlay workspace, to report later what
// changed. It looks at all files that this box and those before it changed. It
// fails with ErrNoOverlay if the box has no such workspace.
func (b *Box) Watch() (*Watch, error) {
	if b.means.lease == nil {
		return nil, ErrNoOverlay
	}
	m, err := b.means.lease.Mark()
	if err != nil {
		return nil, err
	}
	return &Watch{m}, nil
}

// Changed returns what the commands of the box have changed since Watch, in the order of
// paths, and the number of further changes; most is the largest number of changes that it
// returns.
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
