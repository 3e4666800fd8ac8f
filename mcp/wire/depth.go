package wire

import "strconv"

// DepthKey is the member of a request's _meta that counts the servers such as this one that
// the request has passed, so that a server that is its own upstream is detected.
const DepthKey = "belljar.dev/depth"

// Depth returns the number of servers such as this one that a request has passed. It reads
// the number from the request's _meta, which is checked JSON or nil. It returns 0 for any
// value that is not a whole number from 0 up.
func Depth(meta []byte) int {
	if !IsObject(meta) {
		return 0
	}
	n, err := strconv.Atoi(string(Member(meta, DepthKey)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
