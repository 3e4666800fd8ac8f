// Package jsonlist reads JSON lists from other programs, one element after the other. A
// short text that is decoded as a whole can take many times its size in memory: [{},{},{}]
// becomes one map for each three bytes.
package jsonlist

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds are the bounds of one list.
type Bounds struct {
	Elements int   // most elements of the list
	Bytes    int64 // most bytes of one element, and of the text between two elements
}

// ErrFull is the error of a list with too many elements.
var ErrFull = errors.New("the list has too many elements")

// Each calls use with each element of a list, in order, until use returns an error. The
// text of an element is valid until use returns. If the list has too many elements, use
// gets the first most.Elements of them, and Each then returns ErrFull.
func Each(r io.Reader, most Bounds, use func(element json.RawMessage) error) error {
	// The decoder reads ahead, but at most in.N bytes.
	in := &io.LimitedReader{R: r, N: most.Bytes}
	d := json.NewDecoder(in)
	switch t, err := d.Token(); {
	case err == nil && t == nil:
		return nil // null: some programs write an empty list like this
	case err != nil || t != json.Delim('['):
		return errors.New("this is not a JSON list")
	}
	for n := 0; d.More(); n++ {
		if n == most.Elements {
			return fmt.Errorf("%w: at most %d are read", ErrFull, n)
		}
		in.N = most.Bytes
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return unread(n, in, err)
		}
		if int64(len(one)) > most.Bytes {
			return unread(n, in, nil)
		}
		if err := use(one); err != nil {
			return err
		}
		in.N = most.Bytes
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read the end of a list: %w", err)
	}
	return nil
}

// unread returns the error for an element that cannot be read.
func unread(n int, in *io.LimitedReader, err error) error {
	if in.N <= 0 || err == nil {
		return fmt.Errorf("element %d of the list is too large", n+1)
	}
	return fmt.Errorf("read element %d of a list: %w", n+1, err)
}
