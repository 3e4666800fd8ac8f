package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// parsePatch reads the output of git diff --patch --unified=0, with quoted paths and the
// prefixes a/ and b/. It returns the changed lines of each file, by its present path.
func parsePatch(from io.Reader) (map[string][]Range, error) {
	in := patch{from: bufio.NewReaderSize(io.LimitReader(from, maxBytes+1), 64<<10)}
	all := make(map[string][]Range)
	path, hunks := "", 0
	for {
		line, err := in.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(line, "diff --git "):
			path = ""
		case strings.HasPrefix(line, "+++ "):
			if path, err = newPath(line[len("+++ "):]); err != nil {
				return nil, err
			}
		case strings.HasPrefix(line, "@@ "):
			old, r, err := hunk(line)
			if err != nil {
				return nil, err
			}
			if hunks++; hunks > maxChanges {
				return nil, errBytes
			}
			if path != "" {
				all[path] = append(all[path], r)
			}
			if err := in.skip(old + r.Last - r.First + 1); err != nil {
				return nil, err
			}
		}
	}
	if in.read > maxBytes {
		return nil, errBytes
	}
	return all, nil
}

// patch reads lines of any length.
type patch struct {
	from *bufio.Reader
	read int64
}

// line returns the next line without its end. Of a line that is longer than the buffer, it
// returns the beginning and skips the rest.
func (p *patch) line() (string, error) {
	text, err := p.from.ReadSlice('\n')
	p.read += int64(len(text))
	line := strings.TrimSuffix(string(text), "\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = p.from.ReadSlice('\n')
		p.read += int64(len(text))
	}
	if errors.Is(err, io.EOF) && line != "" {
		return line, nil
	}
	return line, err
}

// skip reads the n lines of a hunk. A line that begins with a backslash is not one of these
// lines: it states that the line before has no line end.
func (p *patch) skip(n int) error {
	for n > 0 {
		line, err := p.line()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, `\`) {
			n--
		}
	}
	return nil
}

// hunk reads @@ -1,2 +3,4 @@ and returns the number of deleted lines and the range of the
// new lines.
func hunk(line string) (deleted int, r Range, err error) {
	words := strings.SplitN(line, " ", 4)
	if len(words) == 4 && strings.HasPrefix(words[1], "-") && strings.HasPrefix(words[2], "+") {
		_, deleted, err = span(words[1][1:])
		if err == nil {
			var first, lines int
			if first, lines, err = span(words[2][1:]); err == nil {
				if lines == 0 {
					first++ // git names the line before the deleted lines
				}
				return deleted, Range{First: first, Last: first + lines - 1}, nil
			}
		}
	}
	return 0, r, fmt.Errorf("not the head of a hunk: %.80q", line)
}

// span reads the first line and the number of lines of one side of a hunk.
func span(text string) (first, lines int, err error) {
	start, length, more := strings.Cut(text, ",")
	if first, err = count(start); err != nil {
		return 0, 0, err
	}
	if !more {
		return first, 1, nil
	}
	lines, err = count(length)
	return first, lines, err
}

// newPath returns the path after +++; it is empty for a file that no longer exists. git
// writes a tab after a path that contains a space. It quotes a path with special characters
// as C does, so a raw tab always ends the path.
func newPath(text string) (string, error) {
	text, _, _ = strings.Cut(text, "\t")
	if text == "/dev/null" {
		return "", nil
	}
	if strings.HasPrefix(text, `"`) {
		plain, err := strconv.Unquote(text) // Unquote knows all of git's escapes
		if err != nil {
			return "", fmt.Errorf("not a quoted path: %.80q", text)
		}
		text = plain
	}
	path, ok := strings.CutPrefix(text, "b/")
	if !ok {
		return "", fmt.Errorf("not the path of a changed file: %.80q", text)
	}
	return path, nil
}
