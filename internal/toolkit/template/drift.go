package template

import "strings"

// Drift is how far a file is from the template that it is most like.
type Drift struct {
	Template string // its URI
	Kept     int    // lines of the template that the file has
	Missing  int    // lines of the template that it does not have
	Added    int    // lines of the file that the template does not have
}

// maxDrift is how long a file may be that is compared, in bytes.
const maxDrift = 256 << 10

// Compare returns how far a file is from the template that it is most like, among those
// that make a file of its name. It reports false where the file has less than half the
// lines of each. The templates are filled with their defaults and examples: where a line
// has an example, the line of the file may have another text there. Blank lines do not
// count.
func Compare(file, text string) (best Drift, like bool, err error) {
	if len(text) > maxDrift {
		return Drift{}, false, nil
	}
	own := lines(text)
	for _, t := range all() {
		if t.Path != file {
			continue
		}
		made, err := Preview(t.URI.String())
		if err != nil {
			return Drift{}, false, err
		}
		d := drift(lines(made.Content), own, examples(t))
		if 2*d.Kept >= d.Kept+d.Missing && (!like || d.Kept-d.Missing-d.Added > best.Kept-best.Missing-best.Added) {
			best, like = d, true
			best.Template = t.URI.String()
		}
	}
	return best, like, nil
}

// drift compares the lines of a template with those of a file.
func drift(template, file []string, examples []string) (d Drift) {
	left := make(map[string]int, len(file)) // lines of the file that no line of the template is yet
	for _, line := range file {
		left[line]++
	}
	var open []string // lines with an example
	for _, line := range template {
		switch {
		case left[line] > 0:
			left[line]--
			d.Kept++
		case holdsAny(line, examples):
			open = append(open, line)
		default:
			d.Missing++
		}
	}
	for _, line := range open {
		found := false
		for _, own := range file {
			if left[own] > 0 && fits(line, own, examples) {
				left[own]--
				found = true
				break
			}
		}
		if found {
			d.Kept++
		} else {
			d.Missing++
		}
	}
	for _, n := range left {
		d.Added += n
	}
	return d
}

// lines returns the lines of a text that are not blank, without the blanks at their ends.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// examples are the texts that a preview has where a file has something of its own.
func examples(t Template) (all []string) {
	for _, p := range t.Parameters {
		if one, ok := p.Example.(string); ok && p.Required && one != "" {
			all = append(all, one)
		}
	}
	return all
}

func holdsAny(line string, examples []string) bool {
	for _, one := range examples {
		if strings.Contains(line, one) {
			return true
		}
	}
	return false
}

// fits reports whether a line is one of a template with other texts than the examples.
func fits(template, line string, examples []string) bool {
	for _, one := range examples {
		template = strings.ReplaceAll(template, one, "\x00")
	}
	parts := strings.Split(template, "\x00")
	last := len(parts) - 1
	if !strings.HasPrefix(line, parts[0]) {
		return false
	}
	line = line[len(parts[0]):]
	for _, part := range parts[1:last] {
		i := strings.Index(line, part)
		if i < 0 {
			return false
		}
		line = line[i+len(part):]
	}
	return strings.HasSuffix(line, parts[last])
}
