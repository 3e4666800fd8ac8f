package main

import "regexp"

// rewrites replace what differs between runs and hosts with one spelling, for golden files.
var rewrites = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(duration_ms|cpu_ms|peak_memory_bytes|runtime_ms)("?[:=] ?)\d+`), "${1}${2}N"},
	{regexp.MustCompile(`(?m)\(\d+(\.\d+)?m?s\)$`), "(TIME)"},
	{regexp.MustCompile(`(?m)/\S*/(chrom\S*|headless_shell)(,|:|;|$)`), "/CHROMIUM${2}"},
	{regexp.MustCompile(`HeadlessChrome/[\d.]+`), "HeadlessChrome/VERSION"},
	{regexp.MustCompile(`after \d+ ms`), "after N ms"},
	{regexp.MustCompile(`output://[a-z0-9]+`), "output://ID"},
	{regexp.MustCompile(`c-[a-z0-9]{8,}`), "c-ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`\bnone\b|\bpartly\b|\bwatchdog\b|\benforced\b`), "HELD"},
}
