package mcp

import "time"

// Limits bound what one client can make the server hold or do. A zero field
// has the default that its comment names. They hold per connection over stdio,
// and over HTTP for all clients together.
type Limits struct {
	Line       int           // bytes of one message from the client; 1 MiB
	Response   int           // bytes of one answer; 10 MiB
	Running    int           // requests that run at once; 128
	Queue      int           // requests that wait for their turn; 1024
	QueueBytes int           // bytes of those; 8 MiB
	Burst      int           // requests at once before the rate counts; 1000
	Rate       float64       // requests per second after that; 100
	Depth      int           // nesting of one message; 128
	Drain      time.Duration // for running calls to finish at the end; 30 s
	Sessions   int           // HTTP sessions at once; 256
	Idle       time.Duration // life of an HTTP session that asks nothing; 30 min
}
