package wire

import "strconv"

// DepthKey is the member of a request's _meta that counts the servers such as this one that
// the request has passed, so that a server that is its own upstream is found out.
const DepthKey = "belljar.dev/depth"

// Depth returns how many servers such as this one a request has passed, by its _meta, which
// is checked JSON or nil. Any value but a whole number from 0 up counts as none.
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
