package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"
	"unicode/utf8"

	"github.com/ledongthuc/pdf"

	"belljar.dev/internal/printable"
)

// Bounds of a PDF. The library trusts its input: it has no limit of its own on memory, time
// or nesting, and panics if it does not understand something. So checkPDF checks the file
// first, and the library gets it from a reader that panics when time or memory is up. These
// panics are recovered.
const (
	maxPages    = 2000
	maxPDFText  = 8 << 20
	maxPDFHeap  = 512 << 20
	maxPDFNotes = 10 // notes about pages that could not be read whole
)

// errPDFBound means that a PDF takes too much time or memory.
var errPDFBound = errors.New("it takes more time or memory than is allowed")

// errPDFText means that a PDF has more text than maxPDFText.
var errPDFText = errors.New("there is more text than is shown")

// boundReader is the file as the library sees it.
type boundReader struct {
	ctx   context.Context //nolint:containedctx // ReadAt has no place for it, and the reader lives as long as one call
	src   *bytes.Reader
	reads int
	heap  uint64
}

func (r *boundReader) ReadAt(p []byte, off int64) (int, error) {
	r.reads++
	if r.ctx.Err() != nil || r.reads > 200_000 || r.reads%16 == 0 && heapInUse() > r.heap+maxPDFHeap {
		panic(errPDFBound) // the library would treat an error as the end of the file
	}
	return r.src.ReadAt(p, off)
}

func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// convertPDF writes the text of a PDF, page by page. A fault of the file is an
// *UnsupportedError.
func convertPDF(ctx context.Context, p *Page, src []byte) error {
	err := readPDF(ctx, p, src)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &UnsupportedError{Type: "application/pdf", Why: printable.Line(err.Error(), 300), Hint: "look for the same text as a page, or download it in a shell and try the tools there"}
}

func readPDF(ctx context.Context, p *Page, src []byte) (err error) {
	if err := checkPDF(src); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it is malformed: %v", r)
			if e, ok := r.(error); ok && errors.Is(e, errPDFBound) {
				err = errPDFBound
			}
		}
	}()
	file := &boundReader{ctx: ctx, src: bytes.NewReader(src), heap: heapInUse()}
	doc, err := pdf.NewReader(file, int64(len(src)))
	if err != nil {
		if strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "encrypt") {
			return errors.New("it is encrypted")
		}
		return fmt.Errorf("it is malformed: %s", strings.TrimRight(err.Error(), ": "))
	}
	info := doc.Trailer().Key("Info")
	p.Title = shorten(oneLine(info.Key("Title").Text()), 300)
	p.Published = pdfDate(info.Key("CreationDate").Text())
	p.Language = oneLine(doc.Trailer().Key("Root").Key("Lang").Text())
	if !languageTag().MatchString(p.Language) {
		p.Language = ""
	}
	count := doc.NumPage()
	var b strings.Builder
	chars, silent, unread := 0, 0, 0 // characters of b, pages without text, pages that were not read whole
	put := func(s string) {
		b.WriteString(s)
		chars += utf8.RuneCountInString(s)
	}
	for i := 1; i <= min(count, maxPages); i++ {
		text, err := pageText(doc.Page(i), maxPDFText-b.Len())
		if errors.Is(err, errPDFBound) {
			return fmt.Errorf("page %d: %w", i, err)
		}
		full := errors.Is(err, errPDFText)
		if err != nil && !full {
			if unread++; unread <= maxPDFNotes {
				p.Notes = append(p.Notes, fmt.Sprintf("Page %d could not be read whole: %s.", i, printable.Line(err.Error(), 200)))
			}
		}
		text, hidden := visible(text)
		p.Hidden += hidden
		if strings.TrimSpace(text) == "" {
			silent++
			continue
		}
		if b.Len() > 0 {
			put("\n")
		}
		if count > 1 && p.Format == Markdown {
			p.Headings = append(p.Headings, Heading{Level: 2, Text: fmt.Sprintf("Page %d", i), Anchor: fmt.Sprintf("page=%d", i), Offset: chars})
			put(fmt.Sprintf("## Page %d\n\n", i))
		}
		put(text)
		if full || b.Len() >= maxPDFText {
			p.Truncated = true
			p.Notes = append(p.Notes, fmt.Sprintf("The text ends at page %d of %d because of its size.", i, count))
			break
		}
	}
	if unread > maxPDFNotes {
		p.Notes = append(p.Notes, fmt.Sprintf("%d more pages could not be read whole.", unread-maxPDFNotes))
	}
	if count > maxPages {
		p.Truncated = true
		p.Notes = append(p.Notes, fmt.Sprintf("The document has %d pages; %d were read.", count, maxPages))
	}
	if silent > 0 && silent >= min(count, maxPages) {
		p.Notes = append(p.Notes, "No page has text; the document may be made of images.")
	}
	if p.Format != Markdown {
		p.Format = Text
	}
	p.Content = b.String()
	return nil
}

// pdfDate converts a date of a PDF, D:YYYYMMDD, to a date of ISO 8601.
func pdfDate(s string) string {
	s = strings.TrimPrefix(s, "D:")
	if len(s) < 8 {
		return ""
	}
	for i := range 8 {
		if s[i] < '0' || s[i] > '9' {
			return ""
		}
	}
	return s[:4] + "-" + s[4:6] + "-" + s[6:8]
}

// pdfText is the text of one page so far, and the layout of its last piece.
type pdfText struct {
	b            strings.Builder
	enc          pdf.TextEncoding
	size         float64 // size of the font
	leading      float64
	scale        float64
	x, y         float64 // position of the line
	lastY        float64
	moved, begun bool
	most         int
}

// pageText returns the text of one page in the order of its content, with line ends where
// the text moves down.
func pageText(page pdf.Page, most int) (text string, err error) {
	w := &pdfText{scale: 1, size: 10, most: most}
	defer func() {
		if r := recover(); r != nil {
			text, err = w.b.String(), fmt.Errorf("%v", r)
			if e, ok := r.(error); ok {
				err = e
			}
		}
	}()
	content := page.V.Key("Contents")
	if content.Kind() == pdf.Null {
		return "", nil
	}
	fonts := make(map[string]pdf.TextEncoding)
	pdf.Interpret(content, func(stack *pdf.Stack, op string) {
		var args []pdf.Value
		for stack.Len() > 0 {
			args = append(args, stack.Pop())
		}
		// The last argument came first.
		for i, j := 0, len(args)-1; i < j; i, j = i+1, j-1 {
			args[i], args[j] = args[j], args[i]
		}
		if op == "Tf" && len(args) == 2 {
			name := args[0].Name()
			if _, ok := fonts[name]; !ok {
				fonts[name] = encodingOf(page, name)
			}
			w.enc, w.size = fonts[name], args[1].Float64()
			return
		}
		w.do(op, args)
	})
	return typeset(strings.TrimRight(w.b.String(), " \n")) + "\n", nil
}

// typeset undoes what typesetting did to the words: it replaces letters that are drawn as
// one, and bullets of fonts that have no name for them, and joins words that are cut at the
// end of a line. A word is joined if both halves are in lower case. It keeps its hyphen if
// the page writes it with the hyphen elsewhere.
func typeset(text string) string {
	text = bullet().ReplaceAllString(ligatures.Replace(text), "${1}• ")
	return cutWord().ReplaceAllStringFunc(text, func(m string) string {
		before, after, _ := strings.Cut(m, "-\n")
		after, more := strings.CutSuffix(after, " ")
		joined := before + after
		if hyphened := before + "-" + after; len(text) < 64<<10 && strings.Contains(text, hyphened) {
			joined = hyphened
		}
		if more {
			joined += "\n" // the line ends after the word instead of inside it
		}
		return joined
	})
}

var (
	ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st", "\u00ad\n", "-\n")
	bullet    = pattern(`(?m)^([ \t]*)[\x{fffd}\x{f0b7}\x{f0a7}\x{f076}\x{2022}](?:[ \t]+|\b)`)
	cutWord   = pattern(`\b\p{Ll}{2,30}-\n\p{Ll}{2,30}[.,;:)]*(?: |\b)?`)
)

// encodingOf returns the encoding of a font's bytes. It returns nil if the font makes the
// library panic; the text is then read as Latin.
func encodingOf(page pdf.Page, name string) (enc pdf.TextEncoding) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok && errors.Is(e, errPDFBound) {
				panic(r)
			}
			enc = nil
		}
	}()
	font := page.Font(name)
	return font.Encoder()
}

// do executes an operator of a content stream; see section 9.4 of ISO 32000.
func (w *pdfText) do(op string, args []pdf.Value) {
	num := func(i int) float64 {
		if i < len(args) {
			return args[i].Float64()
		}
		return 0
	}
	switch op {
	case "BT":
		w.x, w.y, w.moved = 0, 0, true
	case "TL":
		w.leading = num(0)
	case "Tm":
		if s := num(3); s != 0 {
			w.scale = max(s, -s)
		}
		w.x, w.y, w.moved = num(4), num(5), true
	case "Td", "TD":
		w.x, w.y, w.moved = w.x+num(0)*w.scale, w.y+num(1)*w.scale, true
		if op == "TD" {
			w.leading = -num(1)
		}
	case "T*":
		w.y, w.moved = w.y-w.leading*w.scale, true
	case "'", "\"":
		w.y, w.moved = w.y-w.leading*w.scale, true
		if len(args) > 0 {
			w.show(args[len(args)-1].RawString())
		}
	case "Tj":
		if len(args) > 0 {
			w.show(args[len(args)-1].RawString())
		}
	case "TJ":
		if len(args) == 0 {
			return
		}
		list := args[len(args)-1]
		for i := range list.Len() {
			v := list.Index(i)
			if v.Kind() == pdf.String {
				w.show(v.RawString())
			} else if v.Float64() < -200 {
				w.space() // a gap of a fifth of the font's size
			}
		}
	}
}

func (w *pdfText) show(raw string) {
	s := raw
	if w.enc != nil {
		s = w.enc.Decode(raw)
	}
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	if s == "" {
		return
	}
	if w.moved && w.begun {
		size := max(w.size*w.scale, -w.size*w.scale, 1)
		switch down := w.lastY - w.y; {
		case down > 1.9*size || down < -size:
			w.b.WriteString("\n\n")
		case down > 0.3*size || down < -0.3*size:
			w.b.WriteString("\n")
		default:
			w.space()
		}
	}
	if w.b.Len()+len(s) > w.most {
		panic(errPDFText)
	}
	w.begun, w.moved, w.lastY = true, false, w.y
	w.b.WriteString(s)
}

func (w *pdfText) space() {
	if s := w.b.String(); s != "" && !strings.HasSuffix(s, " ") && !strings.HasSuffix(s, "\n") {
		w.b.WriteByte(' ')
	}
}
