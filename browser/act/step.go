package act

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// field is a field of a step, as a bit.
type field int

const (
	fRef field = 1 << iota
	fXY
	fTo
	fURL
	fText
	fSecret
	fClear
	fPath
	fDownload
	fAccept
	fButton
	fMS
)

var fieldNames = []string{"ref", "xy", "to", "url", "text", "secret", "clear", "path", "download", "accept", "button", "ms"}

// verb says which fields a verb needs and allows. A step must have at least one of the
// fields of needs; ref says that it must have a number as well.
type verb struct {
	is            Verb
	needs, allows field
	ref           bool
}

// verbs contains the supported verbs, in the order of the constants.
var verbs = []verb{
	{DoOpen, fURL, fURL, false},
	{DoBack, 0, 0, false},
	{DoForward, 0, 0, false},
	{DoReload, 0, 0, false},
	{DoClick, fRef | fXY, fRef | fXY | fButton, false},
	{DoHover, fRef | fXY, fRef | fXY, false},
	{DoFill, fText | fSecret, fRef | fText | fSecret, true},
	{DoPress, fText, fRef | fText, false},
	{DoSelect, fText, fRef | fText, true},
	{DoCheck, fRef, fRef | fAccept, true},
	{DoScroll, fRef | fText, fRef | fXY | fText, false},
	{DoDrag, fRef | fXY, fRef | fXY | fTo, false},
	{DoUpload, fPath, fRef | fPath, true},
	{DoSave, fDownload, fDownload | fPath | fClear, false},
	{DoPDF, fPath, fPath | fClear, false},
	{DoWait, fText | fMS, fText | fMS, false},
	{DoDialog, fAccept, fAccept | fText, false},
	{DoEval, fText, fText, false},
	{DoSwitch, fText, fText, false},
	{DoClose, 0, fText, false},
}

// Verbs returns the supported verbs, in the order of the constants.
func Verbs() (all []Verb) {
	for _, v := range verbs {
		all = append(all, v.is)
	}
	return all
}

// given returns the fields that a step has.
func (s Step) given() (f field) {
	for i, there := range []bool{
		s.Ref != 0, s.XY != nil, s.To != 0 || s.ToXY != nil, s.URL != "", s.Text != "", s.Secret != "", s.Clear, s.Path != "",
		s.Download != "", s.Accept != nil, s.Button != "", s.MS != 0,
	} {
		if there {
			f |= 1 << i
		}
	}
	return f
}

func namesOf(f field) string {
	var out []string
	for i, n := range fieldNames {
		if f&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, ", ")
}

// Check returns an error if a step is not valid, before any part of it runs.
func (s Step) Check() error {
	refuse := func(next, format string, args ...any) error {
		return &Refusal{Reason: ReasonArgument, Message: fmt.Sprintf(format, args...), Next: next}
	}
	at := slices.IndexFunc(verbs, func(v verb) bool { return v.is == s.Do })
	if at < 0 {
		return refuse("write one of: "+verbNames(), "do is %s, and no step is called that", quoted(string(s.Do), 20))
	}
	v, have := verbs[at], s.given()
	if s.Do == DoFill && s.Secret == "" {
		have |= fText // an empty text empties a field
	}
	switch {
	case have&^v.allows != 0:
		return refuse("leave it out", "the step %s has no field %s", s.Do, namesOf(have&^v.allows))
	case v.needs != 0 && have&v.needs == 0:
		return refuse("add it", "the step %s lacks its field %s", s.Do, strings.ReplaceAll(namesOf(v.needs), ", ", " or "))
	case v.ref && s.Ref == 0:
		return refuse("look, and add the number of the field as ref", "the step %s lacks its field ref", s.Do)
	case s.Do == DoDrag && have&fTo == 0:
		return refuse("add the end of the drag as to", "the step drag lacks its field to")
	case have&fRef != 0 && have&fXY != 0:
		return refuse("leave one of them out", "the step %s has both ref and xy", s.Do)
	case s.Do == DoFill && s.Secret != "" && s.Text != "":
		return refuse("leave one of them out", "the step fill has both text and secret")
	case s.Ref < 0 || s.To < 0:
		return refuse("write a number that a look showed", "ref or to is below zero")
	case s.MS < 0 || s.MS > int(MaxWait.Milliseconds()):
		return refuse(fmt.Sprintf("write 1 to %d", MaxWait.Milliseconds()), "ms is %d", s.MS)
	case len(s.Text) > MaxText:
		return refuse("send it in parts", "text has %d bytes, and at most %d are allowed", len(s.Text), MaxText)
	case !utf8.ValidString(s.Text) || strings.ContainsRune(s.Text, 0):
		return refuse("leave it out", "text contains an invalid character")
	case s.Button != "" && !slices.Contains([]string{"left", "right", "middle", "double"}, s.Button):
		return refuse("write left, right, middle or double", "button is %s", quoted(s.Button, 20))
	case s.Do == DoScroll && s.Text != "" && !slices.Contains([]string{"up", "down", "top", "end"}, s.Text):
		return refuse("write up, down, top or end", "text of scroll is %s", quoted(s.Text, 20))
	case s.Do == DoOpen:
		if err := checkURL(s.URL); err != "" {
			return refuse("write an absolute address that begins with https:// or http://", "%s %s", quoted(s.URL, 100), err)
		}
	case s.Do == DoPress:
		if _, err := parseKey(s.Text); err != "" {
			return refuse("write a key such as Enter, Tab, ArrowDown, a or Control+a", "%s %s", quoted(s.Text, 40), err)
		}
	}
	for _, p := range []*Point{s.XY, s.ToXY} {
		if p != nil && (p.X < 0 || p.Y < 0 || p.X >= windowWidth || p.Y >= windowHeight) {
			return refuse("take a picture, and write a point of it", "the point %d,%d is outside of the picture", p.X, p.Y)
		}
	}
	return nil
}

func verbNames() string {
	var out []string
	for _, v := range Verbs() {
		out = append(out, string(v))
	}
	return strings.Join(out, ", ")
}

// checkURL returns the reason why an address is not opened, or "". It refuses an address
// that Chrome would read as another one, since an earlier check may have read it literally.
func checkURL(raw string) string {
	if len(raw) > MaxURL {
		return "is longer than 16 KiB"
	}
	if strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) >= 0 {
		return "contains a space, a backslash or a character that cannot be seen"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "cannot be read"
	case u.Scheme != "http" && u.Scheme != "https":
		return "is not an address of http or https"
	case u.Hostname() == "":
		return "names no host"
	case u.User != nil:
		return "contains a user or a password"
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return "has a port outside 1 to 65535"
		}
	}
	return ""
}

// same reports whether two steps are equal, except for the content of a file and for
// Unseen.
func (s Step) same(o Step) bool {
	s.File, o.File = nil, nil
	s.Unseen, o.Unseen = false, false
	deref := func(p *Point) Point {
		if p == nil {
			return Point{-1, -1}
		}
		return *p
	}
	a, b := s, o
	a.XY, a.ToXY, a.Accept, b.XY, b.ToXY, b.Accept = nil, nil, nil, nil, nil, nil
	return a == b && deref(s.XY) == deref(o.XY) && deref(s.ToXY) == deref(o.ToXY) &&
		(s.Accept == nil) == (o.Accept == nil) && (s.Accept == nil || *s.Accept == *o.Accept)
}

// yes returns the value of Accept; nil means true.
func (s Step) yes() bool { return s.Accept == nil || *s.Accept }
