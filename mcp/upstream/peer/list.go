package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	mostPages  = 256
	mostList   = 32 << 20 // most bytes of all items of a list
	mostReason = 8        // most reasons for missing items
)

// Listing is a list of a server.
type Listing struct {
	Items []json.RawMessage // items as the server wrote them, in its order
	// Missing contains the reasons why items of the server's list are not in Items. A
	// reason is about one item, or about all items after the last one.
	Missing []string
	// how long the list is valid according to the server; zero if the server does not say,
	// negative if it must not be cached
	TTL time.Duration
}

// miss records why an item is missing.
func (l *Listing) miss(format string, args ...any) {
	if len(l.Missing) < mostReason {
		l.Missing = append(l.Missing, fmt.Sprintf(format, args...))
	}
}

// List reads a list to its end, for example List(ctx, "tools/list", "tools",
// CallOptions{}). An item that is too large or nested too deeply is left out; a list that
// is too long is cut.
func (c *Conn) List(ctx context.Context, method, member string, o CallOptions) (Listing, error) {
	var l Listing
	var params json.RawMessage
	size, cursors := 0, map[string]bool{}
	for page := 1; ; page++ {
		r, err := newRequest(method, params, o.Depth)
		if err != nil {
			return l, err
		}
		r.list = true
		result, err := c.exchange(ctx, r, o)
		if err != nil {
			return l, err
		}
		next, err := l.page(result, member, c.cfg.Limits, &size)
		if err != nil {
			return l, fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case next == nil:
			return l, nil
		case page == mostPages:
			l.miss("the list has more than %d pages; the rest was left out", mostPages)
			return l, nil
		case cursors[string(next)]:
			l.miss("page %d names an earlier page as the next page; the list ends there", page)
			return l, nil
		}
		cursors[string(next)] = true
		params = append(append([]byte(`{"cursor":`), next...), '}')
	}
}

// page adds the items of one page. next is the cursor of the next page, or nil.
func (l *Listing) page(result json.RawMessage, member string, limits Limits, size *int) (next json.RawMessage, _ error) {
	items := wire.Member(result, member)
	if len(items) == 0 || items[0] != '[' {
		return nil, fmt.Errorf("the result has no array %q", member)
	}
	full := false
	wire.Elements(items, func(item []byte) bool {
		switch {
		case len(l.Items) == limits.Items || *size+len(item) > mostList:
			l.miss("the list has more than %d items or %d bytes; the rest was left out", limits.Items, mostList)
			full = true
			return false
		case len(item) > limits.Message:
			l.miss("%s has %d bytes and the limit is %d", nameOf(item), len(item), limits.Message)
		case errors.Is(wire.CheckJSON(item, limits.Depth), wire.ErrDeep):
			l.miss("%s is nested deeper than %d levels", nameOf(item), limits.Depth)
		default:
			// a copy, so that the item does not keep the whole page in memory
			l.Items = append(l.Items, bytes.Clone(item))
			*size += len(item)
		}
		return true
	})
	if ms, err := strconv.ParseInt(string(wire.Member(result, "ttlMs")), 10, 64); err == nil && ms >= 0 {
		ttl := time.Duration(min(ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
		if ms == 0 {
			ttl = -1
		}
		if l.TTL == 0 || ttl < l.TTL {
			l.TTL = ttl
		}
	}
	if next = wire.Member(result, "nextCursor"); full || len(next) < 2 || next[0] != '"' || len(next) > limits.Noise {
		return nil, nil
	}
	return next, nil
}

// nameOf returns a name by which people can find an item of a list.
func nameOf(item []byte) string {
	for _, member := range []string{"name", "uri", "uriTemplate"} {
		if wire.IsObject(item) {
			if name := wire.Text(wire.Member(item, member)); name != "" {
				return strconv.Quote(excerpt([]byte(name), mostShown))
			}
		}
	}
	return "an item with no name"
}
