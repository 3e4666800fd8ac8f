package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// maxInbox is the maximum number of deliveries in an inbox. Perhaps no program empties it.
const maxInbox = 256

// letter is the JSON form of a delivery in an inbox, one per file.
type letter struct {
	Type    string    `json:"type"`
	ID      int64     `json:"id"`
	Tenant  string    `json:"tenant"`
	Place   string    `json:"workspace"`
	Slot    int       `json:"callback_id"`
	Message string    `json:"message"`
	Fired   time.Time `json:"fired"`
	Times   int       `json:"times"`
	Left    int       `json:"left"`
}

// Inbox is a directory into which deliveries are put for other programs, each as a JSON
// file named callback-ID.json. The reader of a file removes it. A file is always complete:
// it is renamed to its name after it was written. The zero Inbox accepts nothing. Its
// methods are for one goroutine at a time.
type Inbox struct {
	Dir   string // path of the directory, which is created if needed
	Place string // path of the workspace
}

// Put puts a delivery into the inbox. It replaces an earlier version of the same delivery.
func (in Inbox) Put(d Delivery) error {
	if in.Dir == "" {
		return nil
	}
	text, err := json.Marshal(letter{"callback", d.ID, d.Tenant, in.Place, d.Slot, d.Message, d.Fired.UTC(), d.Times, d.Left})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(in.Dir, 0o700); err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	root, err := os.OpenRoot(in.Dir)
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	defer root.Close()
	name := fmt.Sprintf("callback-%d.json", d.ID)
	if err := in.room(root, name); err != nil {
		return err
	}
	// A crash may have left a temporary file.
	if err := root.Remove(name + ".tmp"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("inbox: %w", err)
	}
	f, err := root.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(name+".tmp", name)
	}
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	return nil
}

// room returns an error if there is no room for one more file.
func (in Inbox) room(root *os.Root, name string) error {
	dir, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(4 * maxInbox)
	if err != nil && len(names) == 0 {
		return nil // Readdirnames returns io.EOF for an empty directory
	}
	n := 0
	for _, other := range names {
		if other == name {
			return nil
		}
		if strings.HasPrefix(other, "callback-") {
			n++
		}
	}
	if n >= maxInbox || len(names) == 4*maxInbox {
		return fmt.Errorf("inbox %s: it has %d files, and no program removes them; remove some", in.Dir, len(names))
	}
	return nil
}
