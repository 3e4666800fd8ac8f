package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/store"
)

func TestInbox(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "inbox")
	in := Inbox{Dir: dir, Place: place}
	d := Delivery{Owner: store.Owner{Tenant: "local"}, ID: 7, Slot: 3, Message: strings.Repeat("<", MaxMessage), Fired: time.Unix(1, 0), Times: 1, Left: Forever}
	for i := range 2 {
		d.Times = i + 1
		if err := in.Put(d); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "callback-7.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got letter
	if err := json.Unmarshal(text, &got); err != nil || got.Message != d.Message || got.Times != 2 || got.Place != place {
		t.Errorf("got %s, %v", text, err)
	}
	if len(text) > 64<<10 {
		t.Errorf("a letter is %d bytes long, want at most 64 KiB", len(text))
	}
	for i := range maxInbox - 1 {
		d.ID = int64(100 + i)
		if err := in.Put(d); err != nil {
			t.Fatal(err)
		}
	}
	d.ID = 1000
	if err := in.Put(d); err == nil || !strings.Contains(err.Error(), "no program removes them") {
		t.Errorf("letter %d: got %v, want that there is no room", maxInbox+1, err)
	}
	d.ID = 7 // a newer version of a delivery that is in the inbox already
	if err := in.Put(d); err != nil {
		t.Error(err)
	}
}

// TestInboxFollowsNoLink checks that Put does not follow a symbolic link that another
// program has placed in the inbox.
func TestInboxFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	for _, name := range []string{"callback-1.json", "callback-1.json.tmp"} {
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Inbox{Dir: dir}).Put(Delivery{ID: 1, Message: "m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the end of the link: got %v, want nothing there", err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "callback-1.json")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("got %v, %v, want a file in the link's place", info, err)
	}
	if err := (Inbox{}).Put(Delivery{}); err != nil {
		t.Errorf("no inbox: %v", err)
	}
	if err := (Inbox{Dir: fmt.Sprintf("%s/callback-1.json", dir)}).Put(Delivery{}); err == nil {
		t.Error("a file was taken for an inbox")
	}
}
