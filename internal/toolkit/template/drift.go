package template

import "strings"

// Drift is how much a file differs from the template that it resembles most.
type Drift struct {
	Template string // URI of the template
	Kept     int    // number of the template's lines that are in the file
	Missing  int    // number of the template's lines that are not in the file
	Added    int    // number of the file's lines that are not in the template
}

// maxDrift is the length of the longest file that is compared, in bytes.
const maxDrift = 256 << 10

// Compare returns how much a file differs from the template that it resembles most, among
// the templates for files of its name. It reports false if the file has less than half the
// lines of each such template. The templates are filled with their defaults and examples.
// Where a line of the template contains an example, the line of the file may contain
// another text. Blank lines do not count.
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
	// how often each line of the file is not yet matched with a line of the template
	left := make(map[string]int, len(file))
	for _, line := range file {
		left[line]++
	}
	var open []string // lines of the template that contain an example
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

// examples returns the example texts of a preview that a real file replaces by its own.
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

// fits reports whether a line of a file is a line of a template in which other texts
// replace the examples.
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
