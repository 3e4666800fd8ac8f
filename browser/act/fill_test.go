package act_test

import (
	"errors"
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

// If a page refuses the text that is typed, the step does not report that the field is
// filled. A page may also change the text itself, for example to put a hyphen into a
// number.
func TestRefusedText(t *testing.T) {
	s := open(t)
	s.page("/", `<title>t</title>
<input aria-label=Free value=old><input aria-label=Empty>
<input aria-label=Keys value=old onkeydown="event.preventDefault()">
<input aria-label=Before value=old onbeforeinput="event.preventDefault()">
<input aria-label=Mask value=old onkeydown="event.preventDefault(); this.value = (this.value === 'old' ? '' : this.value) + event.key.toUpperCase()">
<div contenteditable role=textbox aria-label=Rich onkeydown="event.preventDefault()">old</div>`)
	l := s.goTo(s.url("site", "/"))
	long := strings.Repeat("long ", act.TypedKeys/5+1)
	for field, texts := range map[string]map[string]bool{
		"Free":   {"new": true, "": true, long: true},
		"Empty":  {"": true, "new": true},
		"Keys":   {"new": false, "": false, long: true},
		"Before": {"new": false, "": false, long: false},
		"Mask":   {"new": true},
		"Rich":   {"new": false},
	} {
		for text, took := range texts {
			_, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "`+field+`"`), Text: text})
			refused, _ := errors.AsType[*act.Refusal](err)
			switch {
			case took && refused != nil:
				t.Errorf("%s does not take %.10q: %v", field, text, refused)
			case !took && (refused == nil || refused.Reason != act.ReasonFailed || !refused.Ran):
				t.Errorf("%s refuses %.10q, and the step says %v", field, text, refused)
			}
		}
	}
}
