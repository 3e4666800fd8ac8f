package control

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A caller is accepted or refused by what the kernel reports about it.
func TestCallers(t *testing.T) {
	pid := int32(os.Getpid())
	for _, tt := range []struct {
		peer peer
		self uint32 // user of the server
		want string
	}{
		{peer{uid: 1234, pid: pid}, 1234, ""},
		{peer{uid: 0, pid: pid}, 0, ""},
		{peer{uid: 0, pid: pid}, 4000000123, "root is not the user of this server; run the command as its user: runuser -u USER -- belljar COMMAND"},
		{peer{uid: 1235, pid: pid}, 1234, "uid 1235 is not the user of this server"},
		{peer{uid: 1235, pid: pid}, 0, "uid 1235 is not the user of this server"},
		{peer{uid: 1234, pid: 0}, 1234, "cannot be inspected"},
	} {
		err := tt.peer.check(tt.self)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.peer, err, tt.want)
		}
	}
	if got := Caller(httptest.NewRequest("GET", "/", nil)); got != "unknown" {
		t.Errorf("the caller of a request without a connection is %q", got)
	}
	if got := callerOf(nil); got.err == nil {
		t.Error("what is no unix socket may ask")
	}
}
