package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/people/question"
)

// askForm shows questions on a terminal, one at a time, and contains the answers so far.
// Keys change it and lines returns what it shows; it does not use the terminal itself.
type askForm struct {
	asked question.Asked
	words map[string][]string // answers so far, by question

	at      int          // index of the question that is shown
	cursor  int          // index of the option; the one after the last is for the person's own words
	marked  map[int]bool // options that are marked, if several can be chosen
	own     []rune       // the person's own words
	problem string       // why the answer is not valid

	state askState
}

// askState is the state of a form.
type askState int

const (
	formOpen     askState = iota
	formAnswered          // every question was answered or skipped
	formDeclined          // all questions were declined
	formLeft              // the person left, and the question still waits
)

// The keys of a form, in the bytes that terminals send.
const (
	keyUp, keyDown     = "\x1b[A", "\x1b[B"
	keyEnter, keyTab   = "\r", "\t"
	keyRub, keyRubToo  = "\x7f", "\b"
	keyEsc, keyLeave   = "\x1b", "\x03" // keyLeave is Ctrl-C
	keyDecline, keyBar = "\x04", " "    // keyDecline is Ctrl-D, keyBar is the space bar
)

func newAskForm(a question.Asked) *askForm {
	f := &askForm{asked: a, words: make(map[string][]string)}
	f.show(0)
	return f
}

func (f *askForm) show(n int) {
	f.at, f.cursor, f.marked, f.own, f.problem = n, 0, make(map[int]bool), nil, ""
}

func (f *askForm) question() question.Question { return f.asked.Sheet.Questions[f.at] }

// typing reports whether the cursor is at the place for the person's own words.
func (f *askForm) typing() bool { return f.cursor == len(f.question().Options) && !f.closed() }

// closed reports whether only an option can answer the question.
func (f *askForm) closed() bool { return f.question().Kind == question.YesNo }

// press handles one key. Pasted text also arrives as keys.
func (f *askForm) press(key string) {
	rows := len(f.question().Options)
	if !f.closed() {
		rows++
	}
	f.problem = ""
	switch key {
	case keyUp:
		f.cursor = max(0, f.cursor-1)
	case keyDown:
		f.cursor = min(rows-1, f.cursor+1)
	case keyEnter:
		f.take()
	case keyTab:
		f.next()
	case keyEsc, keyLeave:
		f.state = formLeft
	case keyDecline:
		f.state = formDeclined
	case keyRub, keyRubToo:
		f.own = f.own[:max(0, len(f.own)-1)]
	default:
		f.enter(key)
	}
}

// enter handles a key that is not a command: a mark, the number of an option, or words.
func (f *askForm) enter(key string) {
	q := f.question()
	if !f.typing() {
		if key == keyBar && q.Many {
			f.marked[f.cursor] = !f.marked[f.cursor]
			return
		}
		if len(key) == 1 && key[0] >= '1' && int(key[0]-'1') < len(q.Options) {
			f.cursor = int(key[0] - '1')
			return
		}
	}
	if strings.HasPrefix(key, "\x1b") || f.closed() {
		return // the key has no meaning here
	}
	if text := []rune(question.Clean(key, false)); len(text) > 0 {
		f.own, f.cursor = append(f.own, text...), len(q.Options)
	} else if key == keyBar && f.typing() && len(f.own) > 0 {
		f.own = append(f.own, ' ')
	}
	f.own = f.own[:min(len(f.own), maxTyped)]
}

// maxTyped bounds what is typed, in characters; an answer may have fewer.
const maxTyped = 4000

// take uses the input as the answer to the question that is shown, if it is valid.
func (f *askForm) take() {
	q := f.question()
	var said []string
	for i, o := range q.Options {
		if f.marked[i] || !q.Many && i == f.cursor {
			said = append(said, o.Label)
		}
	}
	if own := strings.TrimSpace(string(f.own)); own != "" && (q.Many || f.typing()) {
		said = append(said, own)
	}
	if q.Many && len(said) == 0 && !f.typing() {
		said = []string{q.Options[f.cursor].Label}
	}
	if len(said) == 0 {
		f.problem = "nothing is chosen or typed; Tab passes the question over"
		return
	}
	if _, err := (question.Sheet{Questions: []question.Question{q}}).Read(map[string][]string{q.ID: said}); err != nil {
		f.problem = err.Error()
		return
	}
	f.words[q.ID] = said
	f.next()
}

func (f *askForm) next() {
	switch {
	case f.at+1 < len(f.asked.Sheet.Questions):
		f.show(f.at + 1)
	case len(f.words) == 0:
		f.state = formDeclined // every question was skipped
	default:
		f.state = formAnswered
	}
}

// lines returns the lines that a terminal of a size shows. If there is not room for all,
// these are the lines around the cursor.
func (f *askForm) lines(width, height int) []string {
	q := f.question()
	head := []string{
		fmt.Sprintf("%s of tenant %s, workspace %s", f.asked.ID, question.Clean(f.asked.Tenant, false), question.Clean(f.asked.Place, false)),
		fmt.Sprintf("Question %d of %d", f.at+1, len(f.asked.Sheet.Questions)), "",
	}
	all := append(head, wrapped(q.Text, "", width)...)
	all = append(all, "")
	at := 0
	row := func(i int, text string) {
		mark := "  "
		if i == f.cursor {
			mark, at = "> ", len(all)
		}
		all = append(all, wrapped(text, mark, width)...)
	}
	for i, o := range q.Options {
		box := fmt.Sprintf("%d) ", i+1)
		if q.Many {
			box += map[bool]string{true: "[x] ", false: "[ ] "}[f.marked[i]]
		}
		row(i, box+o.Label)
		for _, more := range []string{o.Description, o.Preview} {
			if more != "" {
				all = append(all, wrapped(more, "       ", width)...)
			}
		}
	}
	if !f.closed() {
		row(len(q.Options), "Your own words: "+string(f.own)+"_")
	}
	all = append(all, "")
	if f.problem != "" {
		all = append(all, wrapped(f.problem, "! ", width)...)
	}
	help := "Up, Down: move. Enter: answer. Tab: pass over. Ctrl-D: decline all. Esc: leave."
	if q.Many {
		help = "Space: mark. " + help
	}
	all = append(all, wrapped(help, "", width)...)
	if height > 0 && len(all) > height {
		from := min(max(0, at-height/2), len(all)-height)
		all = all[from : from+height]
	}
	return all
}

// wrapped returns a text in lines of a width; the first begins with before.
func wrapped(text, before string, width int) (all []string) {
	room := max(8, width-len(before)-1)
	for line := range strings.SplitSeq(text, "\n") {
		for utf8.RuneCountInString(line) > room {
			runes := []rune(line)
			cut := room
			if at := strings.LastIndexByte(string(runes[:room]), ' '); at > 0 {
				cut = utf8.RuneCountInString(string(runes[:room])[:at+1])
			}
			all = append(all, before+strings.TrimRight(string(runes[:cut]), " "))
			line, before = string(runes[cut:]), strings.Repeat(" ", len(before))
		}
		all = append(all, before+line)
		before = strings.Repeat(" ", len(before))
	}
	return all
}
