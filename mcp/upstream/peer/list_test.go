package peer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp/wire"
)

// listing is the result of List.
type listing struct {
	l   Listing
	err error
}

func list(t *testing.T, c *Conn) <-chan listing {
	done := make(chan listing, 1)
	go func() {
		l, err := c.List(t.Context(), "tools/list", "tools", CallOptions{})
		done <- listing{l, err}
	}()
	return done
}

// A page has a small item and much other data. Only the item is kept: 256 such pages would
// be 2.5 GiB.
func TestListKeepsNoPages(t *testing.T) {
	result := []byte(`{"x":"` + strings.Repeat("x", 1000) + `","tools":[{"name":"a"}]}`)
	var l Listing
	size := 0
	if _, err := l.page(result, "tools", Limits{}.withDefaults(), &size); err != nil {
		t.Fatal(err)
	}
	clear(result)
	if got := string(l.Items[0]); got != `{"name":"a"}` || cap(l.Items[0]) > 100 {
		t.Errorf("the item is %q, with %d bytes of memory", got, cap(l.Items[0]))
	}
}

func TestList(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Modern, Config{})
		done := list(t, c)
		m := s.want("tools/list")
		if m.Params.Cursor != "" {
			t.Errorf("the first request is %s", m.raw)
		}
		s.result(m, `{"tools":[{"name":"a", "new":1.0},{"name":"d\u001bd","inputSchema":`+deep+`},5],"nextCursor":"p\u0032","ttlMs":5000}`)
		m = s.want("tools/list")
		if !strings.Contains(m.raw, `"params":{"cursor":"p\u0032","_meta":`) {
			t.Errorf("the second request is %s", m.raw)
		}
		s.result(m, `{"tools":[{"name":"large","description":"`+strings.Repeat("x", 5<<20)+`"},{"name":"b"}],"nextCursor":null,"ttlMs":3000}`)
		r := <-done
		if r.err != nil {
			t.Fatal(r.err)
		}
		if got := fmt.Sprintf("%s", r.l.Items); got != `[{"name":"a", "new":1.0} 5 {"name":"b"}]` {
			t.Errorf("got %s", got)
		}
		if got := fmt.Sprintf("%q", r.l.Missing); !strings.Contains(got, "nested deeper than 128") || !strings.Contains(got, "large") || strings.Contains(got, "\x1b") || len(r.l.Missing) != 2 {
			t.Errorf("missing: %s", got)
		}
		if r.l.TTL != 3*time.Second {
			t.Errorf("TTL %v", r.l.TTL)
		}
	})
	page := func(n int) string {
		return `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"x"},`, n), ",") + `],"nextCursor":"%d"}`
	}
	for _, tt := range []struct {
		name, page string
		items      int
		want       string
	}{
		{"the same page again", strings.Replace(page(1), "%d", "again", 1), 2, "an earlier page"},
		{"pages without an end", page(1), mostPages, "more than 256 pages"},
		{"10,000 tools", page(10_000), 4096, "more than 4096 items"},
		{"large tools", `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"`+strings.Repeat("x", 1<<20-100)+`"},`, 9), ",") + `],"nextCursor":"%d"}`, 32, "33554432 bytes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{})
			done := list(t, c)
			pages := 0
			go func() {
				for m := range s.got {
					pages++
					s.result(m, strings.Replace(tt.page, "%d", fmt.Sprint(pages), 1))
				}
			}()
			r := <-done
			if r.err != nil || len(r.l.Items) != tt.items || len(r.l.Missing) != 1 || !strings.Contains(r.l.Missing[0], tt.want) {
				t.Errorf("%s: got %d items, missing %q, %v", tt.name, len(r.l.Items), r.l.Missing, r.err)
			}
			c.Close()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		for _, result := range []string{`{}`, `{"tools":{}}`, `{"tools":null}`} {
			done := list(t, c)
			s.result(s.want("tools/list"), result)
			contains(t, result, (<-done).err, `no array "tools"`)
		}
		done := list(t, c)
		s.fail(s.want("tools/list"), -32601, "no tools")
		if e, ok := errors.AsType[*Error]((<-done).err); !ok || e.Code != -32601 {
			t.Errorf("got %v", e)
		}
		done = list(t, c)
		s.result(s.want("tools/list"), `{"tools":[]}`)
		if r := <-done; r.err != nil || len(r.l.Items) != 0 || r.l.Missing != nil || r.l.TTL != 0 {
			t.Errorf("got %+v", r)
		}
		done = list(t, c)
		s.result(s.want("tools/list"), `{"tools":[],"ttlMs":0}`)
		if r := <-done; r.err != nil || r.l.TTL >= 0 {
			t.Errorf("a list that must not be kept: got %+v", r)
		}
	})
}
