package egress

import "net"

type ownAddrs struct{ read func() ([]net.Addr, error) }
