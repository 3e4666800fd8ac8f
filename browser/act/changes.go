package act

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// changes returns the lines that disappeared, appeared or changed since the agent last got
// lines of this tab. If these are more than half of all lines, it returns the page.
func (t eye) changes(ctx context.Context, q LookRequest) (*Look, error) {
	t.mu.Lock()
	last, url := t.looks.last, t.looks.url
	t.mu.Unlock()
	if last == nil {
		return t.look(ctx, LookRequest{Tab: q.Tab, MaxChars: q.MaxChars})
	}
	s, err := t.see(ctx, nil)
	if err != nil {
		return nil, err
	}
	gone, came := diff(last, s.lines)
	if s.url != url || len(gone)+len(came) > (len(last)+len(s.lines))/2 && len(s.lines) > 6 {
		return t.look(ctx, LookRequest{Tab: q.Tab, MaxChars: q.MaxChars})
	}
	mark := nonce()
	var b strings.Builder
	b.WriteString(strings.Replace(t.head(s, mark), "<<page ", "<<changes of page ", 1))
	foot := "<<end " + mark + ">>"
	room := min(chars(q.MaxChars), MaxChanges) - utf8.RuneCountInString(b.String()) - len(foot) - 60
	left := 0
	put := func(sign, text string) bool {
		text = sign + cut(text, 400)
		n := utf8.RuneCountInString(text) + 1
		if room < n {
			left++
			return false
		}
		room -= n
		b.WriteString(text + "\n")
		return true
	}
	var given []line
	for _, l := range came {
		l.text = cut(l.text, 400)
		if put("+ ", l.text) {
			given = append(given, l)
		}
	}
	for _, g := range gone {
		put("- ", g)
	}
	switch {
	case left > 0:
		fmt.Fprintf(&b, "… %d more lines changed; look at the page\n", left)
	case len(gone)+len(came) == 0:
		b.WriteString("… nothing changed\n")
	}
	b.WriteString(foot)
	t.mu.Lock()
	t.show(given)
	t.looks.last, t.looks.url, t.looks.kept = textsOf(s.lines), s.url, s
	t.mu.Unlock()
	return &Look{Tab: t.name, URL: shownURL(s.url), Title: cut(plain(s.title), MaxName), Text: b.String()}, nil
}

// diff returns the lines of old that are not in lines, and the lines that are not in old,
// both in their order.
func diff(old []string, lines []line) (gone []string, came []line) {
	count := map[string]int{}
	for _, l := range old {
		count[l]++
	}
	for _, l := range lines {
		if count[l.text] > 0 {
			count[l.text]--
		} else {
			came = append(came, l)
		}
	}
	have := map[string]int{}
	for _, l := range lines {
		have[l.text]++
	}
	for _, l := range old {
		if have[l] > 0 {
			have[l]--
		} else {
			gone = append(gone, l)
		}
	}
	return gone, came
}
