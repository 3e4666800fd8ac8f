package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"belljar.dev/browser/act"
	"belljar.dev/browser/page"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// lookInput is the arguments of BrowserLook.
type lookInput struct {
	At       string `json:"at,omitempty"`
	Tab      string `json:"tab,omitempty"`
	Scope    string `json:"scope,omitempty" jsonschema:"what is on the screen, or all of the page"`
	In       int    `json:"in,omitempty" jsonschema:"number of a control or frame: only this"`
	Find     string `json:"find,omitempty" jsonschema:"only lines that contain it"`
	Offset   int    `json:"offset,omitempty"`
	MaxChars int    `json:"max_chars,omitempty"`
}

// Facts returns no facts: a look only reads the session's browser, and changes nothing.
func (lookInput) Facts() policies.Facts { return policies.Facts{} }

// errNoBrowser is the error for the agent of a session without a browser.
var errNoBrowser = errors.New(`this session has no browser yet; nothing was done; open a page with Browser, for example {"steps":[{"do":"open","url":"https://example.org/"}]}`)

func (b *browsers) look(ctx context.Context, call mcp.Call, in lookInput) (*mcp.Result, error) {
	s := b.current(call.Session)
	if s == nil {
		return nil, errNoBrowser
	}
	if s.profile != call.Grant.Profile() {
		return nil, fmt.Errorf("the browser of this session has profile %q, and this call has profile %q; nothing is shown; look as before, or ask the person you work for to let the policy grant one profile", s.profile, call.Grant.Profile())
	}
	c, leave, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	res, err := shownBy(ctx, c, act.LookRequest{
		At: act.At(in.At), Tab: in.Tab, Scope: act.Scope(in.Scope), In: in.In, Find: in.Find, Offset: in.Offset, MaxChars: in.MaxChars,
	})
	return res, b.said(s, c, err)
}

// shownBy looks at the page, and returns what it sees as content.
func shownBy(ctx context.Context, c Chrome, q act.LookRequest) (*mcp.Result, error) {
	l, err := c.Look(ctx, q)
	if err != nil {
		return nil, err
	}
	switch {
	case len(l.Picture) > 0:
		head := fmt.Sprintf("[picture of tab %s, %dx%d; use a point of it as xy]", l.Tab, l.Width, l.Height)
		return &mcp.Result{Content: []mcp.Content{{Text: head}, {Data: l.Picture, MIME: "image/jpeg"}}}, nil
	case q.At == act.AtText:
		return articleOf(ctx, c, l, q)
	}
	var more []string
	if names := c.SecretsHere(l.Tab); len(names) > 0 {
		more = append(more, "[secrets that fill can use here: "+strings.Join(names, ", ")+"]")
	}
	return mcp.Text("%s", strings.Join(append([]string{l.Text}, more...), "\n")), nil
}

// articleOf returns the text of a document in the form of ReadDocs: at most q.MaxChars
// characters, from q.Offset on.
func articleOf(ctx context.Context, c Chrome, l *act.Look, q act.LookRequest) (*mcp.Result, error) {
	// The HTML is masked before the conversion too: Markdown puts a backslash before some
	// letters of a secret.
	p, err := page.Convert(ctx, []byte(c.Mask(l.HTML)), page.Options{URL: l.URL, ContentType: "text/html", Decoded: true})
	if err != nil {
		return nil, fmt.Errorf("the text of %s cannot be read: %w; look at the page instead", policies.Clip(fmt.Sprintf("%q", l.URL), 200), err)
	}
	most := min(cmp.Or(max(q.MaxChars, 0), act.DefaultChars), act.MaxChars)
	all := []rune(c.Mask(p.Content))
	from := min(max(q.Offset, 0), len(all))
	to := min(from+most, len(all))
	text := page.Untrusted(string(all[from:to]), c.Mask(l.URL))
	if to < len(all) {
		text += fmt.Sprintf("[continue with offset %d of %d]\n", to, len(all))
	} else if l.Cut {
		text += "[the document is longer than what is read of it, and this is the end of that; look at the page]\n"
	}
	return mcp.Text("%s", text), nil
}
