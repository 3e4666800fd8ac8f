package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// spanFlag is a duration above zero, which may be given in days. Zero is refused: to one
// reader it would mean "without a limit", and to another "not at all".
type spanFlag time.Duration

func (s *spanFlag) String() string { return time.Duration(*s).String() }

// Type returns the key under which the table wanted explains bad values.
func (s *spanFlag) Type() string { return "span" }

// Set parses a value.
func (s *spanFlag) Set(text string) error {
	const (
		day  = 24 * time.Hour
		most = 36500 * day
	)
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	}
	if err != nil || d <= 0 || d > most {
		return errors.New("not a time above zero")
	}
	*s = spanFlag(d)
	return nil
}

// countFlag is an integer above zero.
type countFlag int

func (n *countFlag) String() string { return strconv.Itoa(int(*n)) }

// Type returns the key under which the table wanted explains bad values.
func (n *countFlag) Type() string { return "count" }

// Set parses a value.
func (n *countFlag) Set(text string) error {
	got, err := strconv.ParseInt(text, 10, 32)
	if err != nil || got <= 0 {
		return errors.New("not a number above zero")
	}
	*n = countFlag(got)
	return nil
}
