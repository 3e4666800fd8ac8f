package shell

import (
	"strconv"
	"strings"
)

// braces returns the words into which brace expansion changes one word, in bash's order. If
// it is not sure that the expansion is the same as in bash, the result is one unknown word.
func (r *wordReader) braces(cells []cell) [][]cell {
	open := false
	for _, c := range cells {
		open = open || c == cell{'{', bare}
	}
	if !open {
		return [][]cell{cells}
	}
	b := bracer{wordReader: r}
	all := b.expand(cells, 0)
	if b.over {
		prefix := cells
		for i, c := range cells {
			if c == (cell{'{', bare}) {
				prefix = cells[:i:i]
				break
			}
		}
		return [][]cell{append(prefix, cell{kind: many})}
	}
	return all
}

// bracer bounds the work of one word's expansion.
type bracer struct {
	*wordReader
	words int
	over  bool
}

func (b *bracer) expand(cells []cell, depth int) [][]cell {
	for from := range cells {
		if b.over {
			return nil
		}
		if cells[from] != (cell{'{', bare}) {
			continue
		}
		to, commas, dots := ending(cells, from)
		if to < 0 || len(commas) == 0 && !dots {
			continue // this brace is an ordinary character
		}
		if depth > MaxDepth {
			b.over = true
			return nil
		}
		var middles [][]cell
		if len(commas) > 0 {
			at := from + 1
			for _, comma := range append(commas, to) {
				middles = append(middles, b.expand(cells[at:comma], depth+1)...)
				at = comma + 1
			}
		} else if middles = b.sequence(cells[from+1 : to]); middles == nil {
			b.over = true
		}
		var all [][]cell
		tails := b.expand(cells[to+1:], depth+1)
		for _, middle := range middles {
			for _, tail := range tails {
				n := from + len(middle) + len(tail)
				b.words++
				b.made += n
				if b.words > maxWords || b.made > maxMade {
					b.over = true
					return nil
				}
				one := make([]cell, 0, n)
				all = append(all, append(append(append(one, cells[:from]...), middle...), tail...))
			}
		}
		return all
	}
	return [][]cell{cells}
}

// ending finds the brace that closes the one at from, the commas between the two braces,
// and whether there are two dots between them.
func ending(cells []cell, from int) (to int, commas []int, dots bool) {
	level := 0
	for i := from + 1; i < len(cells); i++ {
		if cells[i].kind != bare {
			continue
		}
		switch c := cells[i].c; {
		case c == '{':
			level++
		case c == '}' && level > 0:
			level--
		case c == '}':
			return i, commas, dots
		case c == ',' && level == 0:
			commas = append(commas, i)
		case c == '.' && level == 0 && i+1 < len(cells) && cells[i+1] == (cell{'.', bare}):
			dots = true
		}
	}
	return -1, nil, false
}

// sequence returns the words of a sequence such as {1..9} or {a..e}, or nil if they are not
// sure.
func (b *bracer) sequence(cells []cell) [][]cell {
	text := make([]byte, len(cells))
	for i, c := range cells {
		if c.kind != bare {
			return nil
		}
		text[i] = c.c
	}
	ends := strings.Split(string(text), "..")
	if len(ends) != 2 {
		return nil
	}
	if len(ends[0]) == 1 && len(ends[1]) == 1 && letter(ends[0][0]) && letter(ends[1][0]) && ends[0][0]&0x20 == ends[1][0]&0x20 {
		return b.count(int(ends[0][0]), int(ends[1][0]), func(n int) string { return string(rune(n)) })
	}
	from, err := strconv.Atoi(ends[0])
	if err != nil || strconv.Itoa(from) != ends[0] {
		return nil // also if the numbers are padded with zeros
	}
	to, err := strconv.Atoi(ends[1])
	if err != nil || strconv.Itoa(to) != ends[1] {
		return nil
	}
	return b.count(from, to, strconv.Itoa)
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func (b *bracer) count(from, to int, text func(int) string) [][]cell {
	const most = 1 << 40 // far below the numbers whose difference overflows
	if from > most || from < -most || to > most || to < -most || max(from-to, to-from) >= maxWords {
		return nil
	}
	step := 1
	if to < from {
		step = -1
	}
	var all [][]cell
	for n := from; ; n += step {
		cells := literal(nil, text(n))
		b.made += len(cells)
		all = append(all, cells)
		if n == to {
			return all
		}
	}
}
