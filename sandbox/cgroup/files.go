package cgroup

import (
	"os"
	"strconv"
	"strings"
)

// word returns the text of a small file of the kernel without its line end, or "" if it
// cannot be read.
func word(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// counter returns the value of the "name value" line in a file, or 0 if the file
// has no such line.
func counter(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}
