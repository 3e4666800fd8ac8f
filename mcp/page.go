package mcp

import (
	"encoding/base64"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// paged returns the entries after a cursor, and the cursor of the next page. A cursor is
// the key of the last entry that was shown, so no entry is shown twice if the list changes
// meanwhile. The list is sorted by the key.
func paged[T any](all []T, cursor string, key func(T) string) (page []T, next string, _ *wire.Error) {
	all, bad := after(all, cursor, key)
	if bad != nil || len(all) <= pageMost {
		return all, "", bad
	}
	page = all[:pageMost]
	return page, cursorAt(key(page[pageMost-1])), nil
}

// after returns the entries after a cursor.
func after[T any](all []T, cursor string, key func(T) string) ([]T, *wire.Error) {
	if cursor == "" {
		return all, nil
	}
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, wire.Errorf(wire.InvalidParams, "cursor: this server did not issue it; leave it out to start over")
	}
	from, found := slices.BinarySearchFunc(all, string(last), func(e T, k string) int { return strings.Compare(key(e), k) })
	if found {
		from++
	}
	return all[from:], nil
}

// cursorAt returns the cursor after an entry.
func cursorAt(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// cursorOf returns the cursor of a list request, which may have no params.
func cursorOf(params any) string {
	switch p := params.(type) {
	case *sdk.ListPromptsParams:
		if p != nil {
			return p.Cursor
		}
	case *sdk.ListResourcesParams:
		if p != nil {
			return p.Cursor
		}
	}
	return ""
}
