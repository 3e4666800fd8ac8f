package fleet

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// pieces is a connection that notes what is written to it at once.
type pieces struct {
	net.Conn
	all []string
	err error
}

func (c *pieces) Write(p []byte) (int, error) {
	c.all = append(c.all, string(p))
	return len(p), c.err
}

// A header waits for its body and for nothing else; whatever is written next brings it along, such
// as the end of a request that was cancelled. Nothing is lost or reordered.
func TestRequestIsOnePiece(t *testing.T) {
	const endStream, frameReset = 0x1, 0x3
	header, body := frame(frameHeaders, endHeaders, 1, "header"), frame(frameData, endStream, 1, "{}")
	alone, cancel := frame(frameHeaders, endHeaders|endStream, 3, "get"), frame(frameReset, 0, 1, "\x00\x00\x00\x08")
	part := frame(frameHeaders, 0, 1, "a part of a header")
	long := frame(frameHeaders, endHeaders, 1, strings.Repeat("x", maxCoalesced))
	for name, tt := range map[string]struct{ written, want []string }{
		"header and body":     {[]string{header, body}, []string{header + body}},
		"no body":             {[]string{alone}, []string{alone}},
		"cancelled":           {[]string{header, cancel}, []string{header + cancel}},
		"another in between":  {[]string{header, alone, body}, []string{header + alone, body}},
		"two headers":         {[]string{header, header, body}, []string{header + header + body}},
		"a part of a header":  {[]string{part, body}, []string{part, body}},
		"a long header":       {[]string{long, body}, []string{long, body}},
		"the begin of a link": {[]string{preface + noSettings, header, body}, []string{preface + noSettings, header + body}},
		"two frames at once":  {[]string{header + body, body}, []string{header + body, body}},
		"nothing":             {[]string{""}, []string{""}},
	} {
		out := &pieces{}
		c := &coalesced{conn: newConn(out)}
		for _, text := range tt.written {
			if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: %d of %d bytes, %v", name, n, len(text), err)
			}
		}
		if !slices.Equal(out.all, tt.want) {
			t.Errorf("%s: got %q, want %q", name, out.all, tt.want)
		}
	}
	var many []string
	out := &pieces{}
	c := &coalesced{conn: newConn(out)}
	for range 2 * maxCoalesced / len(header) {
		_, _ = c.Write([]byte(header))
		many = append(many, header)
	}
	if len(c.held) > maxCoalesced || strings.Join(out.all, "")+string(c.held) != strings.Join(many, "") {
		t.Errorf("%d bytes wait, want at most %d", len(c.held), maxCoalesced)
	}
	broken := &coalesced{conn: newConn(&pieces{err: io.ErrClosedPipe})}
	_, _ = broken.Write([]byte(header))
	if _, err := broken.Write([]byte(body)); !errors.Is(err, io.ErrClosedPipe) || !closed(broken.lost) {
		t.Errorf("a link that has ended: %v", err)
	}
}
