package engine

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// layouts are the formats in which engines write dates.
var layouts = []string{
	time.RFC3339, "2006-01-02T15:04:05.0000000", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02",
	time.RFC1123Z, time.RFC1123, time.RFC822Z, time.RFC822, "2006 1 2", "2006 1", "2006",
	"2 January 2006", "2 Jan 2006", "January 2, 2006", "Jan 2, 2006", "2006/01/02", "02.01.2006",
}

// parseDate reads a date of an engine: one of the layouts, or seconds since
// 1970. The zero time means that the text holds no date.
func parseDate(s string) time.Time {
	s = strings.Trim(s, " \u00a0·-–,")
	if s == "" || len(s) > 64 {
		return time.Time{}
	}
	if len(s) >= 9 && len(s) <= 13 {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			if len(s) > 11 {
				n /= 1000
			}
			return time.Unix(n, 0).UTC()
		}
	}
	for _, l := range layouts {
		if at, err := time.Parse(l, s); err == nil && at.Year() > 1900 && at.Year() < 2200 {
			return at.UTC()
		}
	}
	return time.Time{}
}

// leading matches a date that an engine puts before a snippet: "2 Sep 2014 ... ".
var leading = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{1,2} [A-Z][a-z]{2,8} \d{4}|[A-Z][a-z]{2,8} \d{1,2}, \d{4})\s*(?:\.\.\.|…|·|—|–|-)\s*`)
})

// leadingDate cuts a date from the beginning of a snippet, and returns the date and the
// rest.
func leadingDate(snippet string) (time.Time, string) {
	m := leading().FindStringSubmatch(snippet)
	if m == nil {
		return time.Time{}, snippet
	}
	at := parseDate(m[1])
	if at.IsZero() {
		return at, snippet
	}
	return at, snippet[len(m[0]):]
}
