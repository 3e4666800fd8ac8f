package act

import (
	"context"
	"fmt"
	"strings"
)

// maxHTML is how many characters of the HTML of a document are read.
const maxHTML = 4 * MaxLook

// html returns the HTML of the document as it is now.
func (t eye) html(ctx context.Context) (*Look, error) {
	ctx, cancel := context.WithTimeout(ctx, LookPatience)
	defer cancel()
	f, ok := t.frameOf(t.target)
	if !ok {
		return nil, errLeft
	}
	var r struct {
		URL, Title, HTML string
		Cut              bool
	}
	script := fmt.Sprintf("({ URL: belljar.dom.url(document), Title: belljar.clip(belljar.dom.title(document).toWellFormed(), 1000), ...belljar.html(%d) })", maxHTML)
	if err := t.run(ctx, f, script, &r); err != nil {
		return nil, err
	}
	hide := t.e.masks.hide
	return &Look{Tab: t.name, URL: shownURL(hide(r.URL)), Title: cut(plain(hide(r.Title)), MaxName), HTML: r.HTML, Cut: r.Cut}, nil
}

// list returns a look at the tabs, the downloads, the console or the network, which are
// kept in addition to the page.
func (t eye) list(q LookRequest) (*Look, error) {
	var lines, missing []string
	switch q.At {
	case AtTabs:
		lines = t.e.tabLines()
	case AtDownloads:
		for _, l := range t.e.fileLines() {
			lines = append(lines, t.e.masks.hide(l))
		}
	case AtConsole:
		t.mu.Lock()
		missing = t.console.missing("lines")
		for _, l := range t.console.all {
			lines = append(lines, cut(t.e.masks.hide(l), maxConsoleLine))
		}
		t.told = t.errors
		t.mu.Unlock()
	case AtNetwork:
		t.mu.Lock()
		missing = t.requests.missing("requests")
		for _, r := range t.requests.all {
			r.url = cut(t.e.masks.hide(r.url), maxShownURL)
			lines = append(lines, t.e.masks.hide(r.String()))
		}
		t.mu.Unlock()
	case AtPage, AtChanges, AtText, AtPicture: // these are looks at the page itself
	}
	if find := strings.ToLower(plain(q.Find)); find != "" {
		kept := lines[:0]
		for _, l := range lines {
			if strings.Contains(strings.ToLower(l), find) {
				kept = append(kept, l)
			}
		}
		lines = kept
	}
	mark := nonce()
	head, foot := fmt.Sprintf("<<%s %s tab %s>>\n", q.At, mark, t.name), "<<end "+mark+">>"
	for _, m := range missing {
		head += m + "\n"
	}
	room := chars(q.MaxChars) - len(head) - len(foot) - 60
	first := len(lines) // index of the first line that is shown; the newest lines are shown
	for first > 0 && room >= len(lines[first-1])+1 {
		first--
		room -= len(lines[first]) + 1
	}
	var b strings.Builder
	b.WriteString(head)
	if first > 0 {
		fmt.Fprintf(&b, "… %d older lines; narrow the list with find, or raise max_chars\n", first)
	}
	for _, l := range lines[first:] {
		b.WriteString(l + "\n")
	}
	if len(lines) == 0 {
		b.WriteString("… nothing\n")
	}
	b.WriteString(foot)
	return &Look{Tab: t.name, URL: shownURL(t.e.masks.hide(t.url())), Text: b.String()}, nil
}

// tabLines returns one line for each tab, for the agent.
func (e *engine) tabLines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, t := range e.tabs {
		line := t.name + " " + shownURL(e.masks.hide(t.url()))
		if t.name == e.current {
			line += " (current)"
		}
		if t.opener != "" {
			line += " opened by " + t.opener
		}
		t.mu.Lock()
		if t.dialog != nil {
			line += ", a dialog waits"
		}
		if t.crashed {
			line += ", crashed"
		}
		if n := t.errors - t.told; n > 0 {
			line += fmt.Sprintf(", %d new errors in its console", n)
		}
		t.mu.Unlock()
		out = append(out, line)
	}
	return out
}
