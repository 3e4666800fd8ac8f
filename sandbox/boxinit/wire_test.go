package boxinit_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/sandbox/boxinit"
)

// reply writes a message as an init would.
func reply(op boxinit.Op, id uint64, status int32, cpu int64, dirLen int, dir string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(op))
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, id)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(status))
	b = binary.NativeEndian.AppendUint64(b, uint64(cpu))
	b = binary.NativeEndian.AppendUint64(b, 0)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(dirLen))
	return append(b, dir...)
}

const code7 = 7 << 8 // wait status of exit(7)

func TestParseReply(t *testing.T) {
	long := "/" + strings.Repeat("x", boxinit.MaxDir)
	for _, tt := range []struct {
		name string
		text []byte
		want string // text in the error
		dir  string
	}{
		{"whole", reply(boxinit.OpEnded, 3, code7, 1, 5, "/tmp\n"), "", "/tmp"},
		{"whole, of a quick command", reply(boxinit.OpRan, 3, code7, 1, 5, "/tmp\n"), "", "/tmp"},
		{"relative directory", reply(boxinit.OpEnded, 3, code7, 1, 3, "tmp"), "", ""},
		{"directory with a NUL", reply(boxinit.OpEnded, 3, code7, 1, 5, "/t\x00mp"), "", ""},
		{"endless directory", reply(boxinit.OpEnded, 3, code7, 1, len(long), long), "", ""},
		{"negative count", reply(boxinit.OpEnded, 3, code7, -1, 0, ""), "below zero", ""},
		{"unknown kind", reply(99, 3, code7, 1, 0, ""), "kind 99", ""},
		{"request", reply(boxinit.OpStart, 3, code7, 1, 0, ""), "kind 1", ""},
		{"stopped, not ended", reply(boxinit.OpEnded, 3, 0x137f, 1, 0, ""), "does not mean an end", ""},
		{"stopped, not run", reply(boxinit.OpRan, 3, 0x137f, 1, 0, ""), "does not mean an end", ""},
		{"length that lies", reply(boxinit.OpEnded, 3, code7, 1, 4000, "/tmp"), "a directory of 4000", ""},
		{"short", reply(boxinit.OpEnded, 3, code7, 1, 0, "")[:20], "20 bytes", ""},
		{"oversized", append(reply(boxinit.OpEnded, 3, code7, 1, 0, ""), make([]byte, boxinit.MaxReply)...), "bytes, want", ""},
	} {
		r, err := boxinit.ParseReply(tt.text)
		switch {
		case tt.want == "" && (err != nil || r.ID != 3 || r.Status.ExitStatus() != 7 || r.Dir != tt.dir):
			t.Errorf("%s: got %+v, %v", tt.name, r, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

// No message of a lying init has an effect outside its box.
func FuzzReply(f *testing.F) {
	f.Add(reply(boxinit.OpEnded, 3, code7, 1, 4, "/tmp"))
	f.Add(reply(boxinit.OpFailed, 0, 0, 0, 0, ""))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := boxinit.ParseReply(text)
		if err != nil {
			if r != (boxinit.Reply{}) {
				t.Errorf("an error comes with %+v", r)
			}
			return
		}
		if r.Op < boxinit.OpReady || r.CPU < 0 || r.RSS < 0 || r.Pid < 0 || r.Dir != "" && !filepath.IsAbs(r.Dir) || strings.Contains(r.Dir, "\x00") {
			t.Errorf("%q was taken as %+v", text, r)
		}
	})
}

func TestEncodeRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		r    boxinit.Request
		want error
	}{
		"too long":       {boxinit.Request{Argv: []string{strings.Repeat("x", boxinit.MaxMessage)}}, syscall.EMSGSIZE},
		"too many":       {boxinit.Request{Argv: make([]string, boxinit.MaxStrings+1)}, syscall.EMSGSIZE},
		"NUL":            {boxinit.Request{Argv: []string{"a\x00b"}}, syscall.EINVAL},
		"NUL in the dir": {boxinit.Request{Dir: "/\x00"}, syscall.EINVAL},
	} {
		if _, err := tt.r.Encode(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}
