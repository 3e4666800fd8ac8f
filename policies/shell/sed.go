package shell

import "strings"

var sedOptions = grammar{
	flags: "nrEszubi", values: "efl", attached: "i",
	long:   "quiet silent debug follow-symlinks in-place null-data posix regexp-extended separate sandbox unbuffered zero-terminated help version",
	valued: "expression file line-length",
}

// sed is opaque if its program may start other programs: by the command e, by the flag e of
// s, or by something that is not understood here. Its options may follow its operands.
func sed(r *reader, i int, words []Word, _ place) {
	c := &r.out.Commands[i]
	const why = "its program may start others"
	var programs []Word
	operands, given := words[1:], false
	first := true
	for len(operands) > 0 {
		options, rest, fault := sedOptions.read(operands)
		if fault != "" && first {
			c.Opaque = fault
			return
		}
		for _, o := range options {
			switch o.name {
			case "e", "expression":
				programs, given = append(programs, o.value), true
			case "f", "file":
				c.Opaque = "it runs the program of a file"
				return
			case "sandbox", "help", "version":
				return
			}
		}
		if len(rest) == 0 {
			break
		}
		if first && !given {
			programs = append(programs, rest[0])
		}
		operands, first = rest[1:], false
	}
	for _, p := range programs {
		if p.Certainty != Exact || !quietSed(p.Text) {
			c.Opaque = why
			return
		}
	}
}

// quietSed reports whether a program of sed surely starts nothing.
func quietSed(text string) bool {
	for i := 0; i < len(text); {
		var ok bool
		if i, ok = sedAddresses(text, i); !ok || i >= len(text) {
			return ok
		}
		switch c := text[i]; c {
		case 's', 'y':
			if i, ok = sedParts(text, i+1, 2); !ok {
				return false
			}
			for i < len(text) && strings.IndexByte("gpiImM0123456789", text[i]) >= 0 {
				i++
			}
		case 'p', 'd', 'q', 'n', 'N', 'D', 'P', 'g', 'G', 'h', 'H', 'x', '=', '{', '}', '!':
			for i++; c == 'q' && i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
			}
		case 'a', 'i', 'c': // the text continues to the end of the line
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return !strings.ContainsRune(text[i:], '}')
			}
			if strings.HasSuffix(text[:i+end], "\\") {
				return false
			}
			i += end
		default:
			return false
		}
		for i < len(text) && strings.IndexByte(" \t\n;}", text[i]) >= 0 {
			i++
		}
		// A text directly after a command, without a separator, would be an argument of
		// the command.
	}
	return true
}

// sedAddresses skips blanks and the addresses in front of a command.
func sedAddresses(text string, i int) (int, bool) {
	for i < len(text) {
		switch c := text[i]; {
		case c == '/':
			var ok bool
			if i, ok = sedParts(text, i, 1); !ok {
				return i, false
			}
			for i < len(text) && (text[i] == 'I' || text[i] == 'M') {
				i++
			}
		case strings.IndexByte(" \t\n;$,~+!0123456789{", c) >= 0:
			i++
		default:
			return i, true
		}
	}
	return i, true
}

// sedParts skips n parts that each end in the byte at i, for example the two parts of
// s/a/b/.
func sedParts(text string, i, n int) (int, bool) {
	if i >= len(text) || text[i] == '\\' || text[i] == '\n' {
		return i, false
	}
	mark, set := text[i], false
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '[' || c == ']':
			// In brackets the separator is an ordinary letter in some versions.
			set = c == '['
		case c == mark && set:
			return i, false
		case c == mark:
			if n--; n == 0 {
				return i + 1, true
			}
		}
	}
	return i, false
}
