package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// spanFlag is a time above zero, which may be a number of days: a zero would mean "as
// long as you like" to one reader and "not at all" to another.
type spanFlag time.Duration

func (s *spanFlag) String() string { return time.Duration(*s).String() }

// Type is the key of what wanted says of a bad value.
func (s *spanFlag) Type() string { return "span" }

// Set reads a value.
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

// countFlag is a number above zero.
type countFlag int

func (n *countFlag) String() string { return strconv.Itoa(int(*n)) }

// Type is the key of what wanted says of a bad value.
func (n *countFlag) Type() string { return "count" }

// Set reads a value.
func (n *countFlag) Set(text string) error {
	got, err := strconv.ParseInt(text, 10, 32)
	if err != nil || got <= 0 {
		return errors.New("not a number above zero")
	}
	*n = countFlag(got)
	return nil
}
