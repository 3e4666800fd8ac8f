package question

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of one sheet.
const (
	MaxJSON      = 64 << 10 // most bytes that Parse reads
	MaxQuestions = 10
	MaxOptions   = 20
	maxText      = 2000 // most characters of a question, a description or a preview
	maxLabel     = 200  // most characters of an option
	maxHeader    = 12   // most characters of a header that are shown
	leastLife    = 5 * time.Second
	mostLife     = 24 * time.Hour
)

// DefaultLife is the time for which a question waits if the agent names none.
const DefaultLife = 10 * time.Minute

// Kind is the kind of answer that a person gives to a question.
type Kind string

// The kinds.
const (
	Choice Kind = "choice" // the person chooses an option, or writes another answer
	Text   Kind = "text"   // the person writes a text
	YesNo  Kind = "yesno"  // the person says yes or no
)

// Option is one of the options of a question.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
	Recommended bool   `json:"recommended,omitempty"`
}

// Question is one question to a person.
type Question struct {
	ID          string   `json:"id"`
	Text        string   `json:"question"`
	Header      string   `json:"header,omitempty"`
	Kind        Kind     `json:"type"`
	Options     []Option `json:"options,omitempty"`
	Many        bool     `json:"multi_select,omitempty"`
	Placeholder string   `json:"placeholder,omitempty"`
}

// Recommended returns the label of the option that the agent would choose: the marked
// option, else the first. It returns an empty text if there are no options.
func (q Question) Recommended() string {
	for _, o := range q.Options {
		if o.Recommended {
			return o.Label
		}
	}
	if len(q.Options) > 0 {
		return q.Options[0].Label
	}
	return ""
}

// Sheet contains the questions of one call.
type Sheet struct {
	Questions []Question    `json:"questions"`
	Life      time.Duration `json:"life"` // time after which the questions are timed out
}

// rawQuestion is a question with the members of all spellings.
type rawQuestion struct {
	ID           string            `json:"id"`
	Question     string            `json:"question"`
	Text         string            `json:"text"`
	Header       string            `json:"header"`
	Type         string            `json:"type"`
	Options      []json.RawMessage `json:"options"`
	MultiSelect  bool              `json:"multiSelect"`
	MultiSelect2 bool              `json:"multi_select"`
	Placeholder  string            `json:"placeholder"`
}

type rawSheet struct {
	Questions        []rawQuestion `json:"questions"`
	AFKTimeoutMS     *int64        `json:"afkTimeoutMs"`
	AutoResolutionMS *int64        `json:"autoResolutionMs"`
	TimeoutMS        *int64        `json:"timeout_ms"`
}

// Parse reads a JSON object {"questions": [...]}, or only the list. A question has its text
// as "question" or "text". Its options are texts, or objects with label, description and
// preview. Further members are ignored. The error is written for the agent.
func Parse(text string) (Sheet, error) {
	var s Sheet
	if len(text) > MaxJSON {
		return s, fmt.Errorf("it has %d bytes, and at most %d are read; ask fewer questions in one call", len(text), MaxJSON)
	}
	var raw rawSheet
	var err error
	if in := bytes.TrimSpace([]byte(text)); len(in) > 0 && in[0] == '[' {
		err = json.Unmarshal(in, &raw.Questions)
	} else {
		err = json.Unmarshal(in, &raw)
	}
	if err != nil {
		return s, fmt.Errorf(`want a JSON text such as {"questions":[{"text":"Which?","options":["A","B"]}]}: %s`, explain(err))
	}
	if n := len(raw.Questions); n == 0 || n > MaxQuestions {
		return s, fmt.Errorf("it has %d questions, and 1 to %d can be asked at once", n, MaxQuestions)
	}
	seen := make(map[string]bool)
	for i, r := range raw.Questions {
		q, err := r.question(i)
		if err == nil && seen[q.ID] {
			err = fmt.Errorf("the id %q occurs twice", q.ID)
		}
		if err != nil {
			return Sheet{}, fmt.Errorf("question %d: %w", i+1, err)
		}
		seen[q.ID] = true
		s.Questions = append(s.Questions, q)
	}
	s.Life = DefaultLife
	// If several are given, the last of them counts, so that a sheet that is put again is
	// equal to the one before.
	for _, given := range []struct {
		name string
		ms   *int64
	}{{"timeout_ms", raw.TimeoutMS}, {"autoResolutionMs", raw.AutoResolutionMS}, {"afkTimeoutMs", raw.AFKTimeoutMS}} {
		if given.ms == nil || *given.ms == 0 {
			continue
		}
		if *given.ms < leastLife.Milliseconds() || *given.ms > mostLife.Milliseconds() {
			return Sheet{}, fmt.Errorf("%s is %d, and a question can wait for %d to %d milliseconds", given.name, *given.ms, leastLife.Milliseconds(), mostLife.Milliseconds())
		}
		s.Life = time.Duration(*given.ms) * time.Millisecond
	}
	return s, nil
}

// explain returns an error of encoding/json in words, without the names of Go types.
func explain(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at := e.Field
		if at == "" {
			at = "the text"
		}
		return fmt.Sprintf("%s cannot be a %s", at, e.Value)
	}
	return err.Error()
}

var goodID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

func (r rawQuestion) question(i int) (Question, error) {
	q := Question{
		ID: r.ID, Text: Clean(r.Question, true), Header: clip(Clean(r.Header, false), maxHeader), Kind: Kind(r.Type),
		Many: r.MultiSelect || r.MultiSelect2, Placeholder: Clean(r.Placeholder, false),
	}
	if q.ID == "" {
		q.ID = fmt.Sprintf("q%d", i+1)
	}
	if q.Text == "" {
		q.Text = Clean(r.Text, true)
	}
	switch n := utf8.RuneCountInString(q.Text); {
	case !goodID().MatchString(q.ID):
		return q, fmt.Errorf("the id %.80q is not 1 to 64 letters, digits, _ and -", q.ID)
	case n == 0:
		return q, errors.New(`it has no text: give it as "question" or "text"`)
	case n > maxText || utf8.RuneCountInString(q.Placeholder) > maxText:
		return q, fmt.Errorf("its text has %d characters, and at most %d are shown", max(n, utf8.RuneCountInString(q.Placeholder)), maxText)
	}
	switch {
	case q.Kind == "" && r.Options == nil:
		q.Kind = Text
	case q.Kind == "":
		q.Kind = Choice
	case q.Kind != Choice && q.Kind != Text && q.Kind != YesNo:
		return q, fmt.Errorf("got the type %.40q, want choice, text or yesno", r.Type)
	}
	switch {
	case q.Kind == YesNo:
		q.Options, q.Many = []Option{{Label: "yes"}, {Label: "no"}}, false
		return q, nil
	case q.Kind == Text:
		q.Many = false
		return q, nil
	case len(r.Options) == 0 || len(r.Options) > MaxOptions:
		return q, fmt.Errorf("it has %d options, and a choice needs 1 to %d; leave options out for a free answer", len(r.Options), MaxOptions)
	}
	for n, raw := range r.Options {
		o, err := option(raw)
		if err != nil {
			return q, fmt.Errorf("option %d: %w", n+1, err)
		}
		for _, other := range q.Options {
			if other.Label == o.Label {
				return q, fmt.Errorf("the option %q occurs twice", o.Label)
			}
		}
		q.Options = append(q.Options, o)
	}
	return q, nil
}

func option(raw json.RawMessage) (o Option, err error) {
	if len(raw) > 0 && raw[0] == '"' {
		err = json.Unmarshal(raw, &o.Label)
	} else {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return o, fmt.Errorf("want a text, or an object with a label: %s", explain(err))
	}
	o.Label, o.Description, o.Preview = Clean(o.Label, false), Clean(o.Description, true), Clean(o.Preview, true)
	o.Recommended = o.Recommended || strings.HasSuffix(strings.ToLower(o.Label), "(recommended)")
	switch n := utf8.RuneCountInString(o.Label); {
	case n == 0:
		return o, errors.New("it has no label")
	case n > maxLabel:
		return o, fmt.Errorf("its label has %d characters, and at most %d are shown; write the rest into its description", n, maxLabel)
	case utf8.RuneCountInString(o.Description) > maxText || utf8.RuneCountInString(o.Preview) > maxText:
		return o, fmt.Errorf("its description or preview has more than the %d characters that are shown", maxText)
	}
	return o, nil
}

// Clean returns a text without control characters and marks that would change how the rest
// of a screen is seen. lines reports whether line ends are kept; if not, they become
// spaces.
func Clean(text string, lines bool) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines:
			return r
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\uFFFD"))
	return strings.TrimSpace(text)
}

func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most])
	}
	return text
}
