// Package jsonlist reads lists in JSON that somebody else wrote, one element after the other.
// Decoded as a whole, a short text becomes many times as much memory: [{},{},{}] has a map
// for each three bytes.
package jsonlist

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds are those of one list.
type Bounds struct {
	Elements int   // that the list has at most
	Bytes    int64 // of one element, also of what stands between it and the one before
}

// ErrFull is the error of a list with more elements than it may have.
var ErrFull = errors.New("the list has too many elements")

// Each calls use with each element of a list, in order, until use returns an error. The text of
// an element is valid until use returns. After ErrFull, use has got as many elements as there
// may be.
func Each(r io.Reader, most Bounds, use func(element json.RawMessage) error) error {
	// The decoder reads ahead, and at most what is left here.
	in := &io.LimitedReader{R: r, N: most.Bytes}
	d := json.NewDecoder(in)
	switch t, err := d.Token(); {
	case err == nil && t == nil:
		return nil // null, which is how an empty list may be written
	case err != nil || t != json.Delim('['):
		return errors.New("this is not a list")
	}
	for n := 0; d.More(); n++ {
		if n == most.Elements {
			return fmt.Errorf("%w: %d are read", ErrFull, n)
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

// unread is the error of an element.
func unread(n int, in *io.LimitedReader, err error) error {
	if in.N <= 0 || err == nil {
		return fmt.Errorf("element %d of the list is too large", n+1)
	}
	return fmt.Errorf("read element %d of a list: %w", n+1, err)
}
