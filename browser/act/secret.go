package act

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// mayType returns an error if a secret may not be typed into a field. It uses the frame as
// Chrome committed it and what our script read in its document, never what the page says.
func (t hand) mayType(a aim, raw touched, name string) error {
	refuse := func(format string, args ...any) error {
		return &Refusal{Reason: ReasonSecret, Message: fmt.Sprintf("secret %s may not be typed there: ", quoted(name, 60)) + fmt.Sprintf(format, args...), Next: "use it at the page and in the field that the policy names"}
	}
	s, ok := t.e.secretOf(name)
	if !ok {
		return &Refusal{Reason: ReasonSecret, Message: "no such secret: " + quoted(name, 60), Next: "look: a look lists the names of the secrets that may be typed"}
	}
	f, ok := t.frameOf(a.frame.id)
	if !ok || f.loader != a.frame.loader {
		return refuse("the page was left")
	}
	// A sandboxed document has the URL of its site and an opaque origin ("null"). A srcdoc document has
	// the origin of the page that wrote it, and no URL of the web. So both have to match.
	for _, got := range []string{originOf(f.url), raw.Origin} {
		switch {
		case got == "" || got == "null":
			return refuse("the secret is for %s, and this document has no origin: it is sandboxed, or is not from the web", s.Origin)
		case got != originOf(s.Origin):
			return refuse("the secret is for %s, and this page is from %s", s.Origin, shownURL(got))
		}
	}
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "https" && !s.Insecure {
		return refuse("the page was loaded without TLS")
	}
	if raw.Field != s.Field {
		return refuse("the secret is for a field of kind %s, and this field is of kind %s", s.Field, raw.Field)
	}
	for n := 0; f.id != t.target && n < 50; n++ {
		if f, ok = t.frameOf(f.parent); !ok {
			return refuse("the frame around the page is gone")
		}
		if !s.Embedded && originOf(f.url) != originOf(s.Origin) {
			return refuse("the page is in a frame of %s", shownURL(originOf(f.url)))
		}
	}
	if f.id != t.target {
		return refuse("the page is nested too deep in frames")
	}
	return nil
}

func (e *engine) secretOf(name string) (Secret, bool) {
	for _, s := range e.opts.Secrets {
		if s.Name == name {
			return s, true
		}
	}
	return Secret{}, false
}

// reveal returns the value of a secret, and masks it in all later output.
func (e *engine) reveal(ctx context.Context, name string) (string, error) {
	s, ok := e.secretOf(name)
	if !ok || s.Value == nil {
		return "", &Refusal{Reason: ReasonSecret, Message: "no such secret: " + quoted(name, 60), Next: "use another secret"}
	}
	value, err := s.Value(ctx)
	if err != nil {
		return "", &Refusal{Reason: ReasonSecret, Message: fmt.Sprintf("secret %s cannot be read", quoted(name, 60)), Next: "tell the operator", Err: err}
	}
	if value == "" || len(value) > maxSecret || strings.ContainsAny(value, "\r\n\x00") {
		return "", &Refusal{Reason: ReasonSecret, Message: fmt.Sprintf("secret %s is empty, longer than %d bytes or of more than one line", quoted(name, 60), maxSecret), Next: "tell the operator"}
	}
	e.masks.add(name, value)
	return value, nil
}

// secretsHere returns the names of the secrets whose site has a document in the tab.
// mayType decides whether a secret may be typed there.
func (t hand) secretsHere() []string {
	var out []string
	frames := t.tree()
	for _, s := range t.e.opts.Secrets {
		for _, f := range frames {
			if o := originOf(f.url); o != "" && o == originOf(s.Origin) {
				out = append(out, s.Name)
				break
			}
		}
	}
	return out
}
