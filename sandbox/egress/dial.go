package egress

import (
	"context"
	"errors"
	"net"

	"belljar.dev/policies"
)

func (d *Door) dial(ctx context.Context, snap *snapshot, h policies.Host, port uint16) (net.Conn, error) {
	return nil, errors.New("not there yet")
}

// failed is the error of a connection that was not made.
func (f *flow) failed(rec Record, err error) error { return err }
