package control

import (
	"os"
	"strings"
	"testing"
)

// A caller is accepted or refused by what the kernel reports about it.
func TestCallers(t *testing.T) {
	for _, tt := range []struct {
		peer peer
		want string
	}{
		{peer{uid: uint32(os.Geteuid()), pid: int32(os.Getpid())}, ""},
		{peer{uid: 0, pid: int32(os.Getpid())}, ""},
		{peer{uid: uint32(os.Geteuid()) + 12345, pid: int32(os.Getpid())}, "is not the user of this server"},
		{peer{uid: uint32(os.Geteuid()), pid: 0}, "cannot be inspected"},
	} {
		err := tt.peer.check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.peer, err, tt.want)
		}
	}
	if got := callerOf(nil); got.err == nil {
		t.Error("what is no unix socket may ask")
	}
}
