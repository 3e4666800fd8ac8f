package page

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// checkPDF refuses a file in which something would make the library allocate so much memory
// that no error can stop it: numbers that become the size of a table, and streams packed
// more than once, so that a few bytes become gigabytes between two checks of the time. It
// checks all bytes, whatever they belong to, because an offset may point anywhere.
func checkPDF(src []byte) error {
	if !bytes.HasPrefix(src[:min(len(src), 1024)], []byte("%PDF-")) {
		// The library requires the mark at the start.
		return errors.New("it does not begin with %PDF-")
	}
	if bytes.Contains(src, []byte("/Encrypt")) {
		return errors.New("it is encrypted")
	}
	if n, ok := largeNumber(src); ok {
		return fmt.Errorf("it contains the number %s, which is too large for a file of this size", n)
	}
	if err := checkFilters(src); err != nil {
		return err
	}
	return nil
}

// largeNumber finds an integer that stands alone and is larger than the file: no offset,
// length, count or object number is.
func largeNumber(src []byte) (string, bool) {
	limit := max(len(src), 100_000)
	for i := 0; i < len(src); i++ {
		if src[i] < '0' || src[i] > '9' {
			continue
		}
		start := i
		for i < len(src) && src[i] >= '0' && src[i] <= '9' {
			i++
		}
		if i-start < 6 || start == 0 || !pdfGap(src[start-1]) && src[start-1] != '+' || i < len(src) && !pdfGap(src[i]) {
			continue
		}
		digits := string(src[start:min(i, start+40)])
		if n, err := strconv.ParseInt(digits, 10, 64); err != nil || n > int64(limit) {
			if key := bytes.TrimRight(src[max(0, start-12):start], " \r\n\t"); bytes.HasSuffix(key, []byte("/Flags")) || bytes.HasSuffix(key, []byte("/F")) {
				continue
			}
			return digits, true
		}
	}
	return "", false
}

func pdfGap(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0 || bytes.IndexByte([]byte("[]<>/%"), c) >= 0
}

// checkFilters checks every name that says how a stream is packed.
func checkFilters(src []byte) error {
	odd := errors.New("a stream in it is compressed in a way that is not supported")
	for at := 0; ; {
		i := bytes.IndexByte(src[at:], '/')
		if i < 0 {
			return nil
		}
		at += i + 1
		name, rest := pdfName(src[at:])
		value := bytes.TrimLeft(rest[:min(len(rest), 400)], " \r\n\t\f\x00")
		switch name {
		case "Filter":
			if len(value) == 0 || value[0] != '/' && value[0] != '[' {
				if bytes.HasPrefix(value, []byte("null")) {
					continue
				}
				return odd
			}
			if value[0] != '[' {
				continue
			}
			end := bytes.IndexByte(value, ']')
			if end < 0 || bytes.ContainsAny(value[:end], "%()<>#") || bytes.Count(value[:end], []byte("Flate"))+bytes.Count(value[:end], []byte("/Fl ")) > 1 {
				return odd
			}
		case "DecodeParms":
			if len(value) == 0 || value[0] >= '0' && value[0] <= '9' || value[0] == '%' || value[0] == '[' && len(value) > 1 && bytes.ContainsAny(bytes.TrimLeft(value[1:], " \r\n\t")[:1], "0123456789%") {
				return odd
			}
		case "Columns", "Size":
			digits := 0
			for digits < len(value) && value[digits] >= '0' && value[digits] <= '9' {
				digits++
			}
			n, err := strconv.Atoi(string(value[:digits]))
			if err != nil && (digits > 0 || len(value) > 0 && (value[0] == '+' || value[0] == '%')) || n > 1_000_000 {
				return odd
			}
		}
	}
}

// pdfName returns a name with its escapes resolved, and the bytes after it.
func pdfName(b []byte) (string, []byte) {
	var name []byte
	i := 0
	for ; i < len(b) && len(name) < 20; i++ {
		c := b[i]
		if pdfGap(c) || c == '(' || c == ')' {
			break
		}
		if c == '#' && i+2 < len(b) {
			if v, err := strconv.ParseUint(string(b[i+1:i+3]), 16, 8); err == nil {
				c, i = byte(v), i+2
			}
		}
		name = append(name, c)
	}
	return string(name), b[i:]
}
