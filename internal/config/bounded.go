package config

import (
	"fmt"
	"io"
	"strings"
)

// ReadBounded reads all of r. It returns an error if r has more than limit bytes.
func ReadBounded(r io.Reader, limit int64) ([]byte, error) {
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return []byte(b.String()), err
}
