package approval

import (
	"reflect"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// A yes to an act is good only for this act on this control: for another act or control, a
// person reads another text and is asked again.
func TestActsAreBound(t *testing.T) {
	form := policies.Act{Kind: policies.ActSubmit, On: "https://shop.example/cart", To: "https://pay.example/charge", Method: "POST", Field: "text", Secret: "pw", Path: "/workspace/x"}
	request := func(a policies.Act, control string) Request {
		r := Request{CallID: "c-1", Principal: "tenant local", Facts: policies.Facts{
			Tenant: "local", Session: "s-1", Tool: policies.ActTool, Acts: []policies.Act{a}, Args: map[string]any{"tab": "t1"}, Scene: &policies.Scene{Control: control},
		}}
		r.Decision.Verdict, r.Decision.Rule, r.Decision.Remember = policies.Ask, "forms", policies.Remember{Session: true}
		return r
	}
	const control = `button "Pay"`
	others := map[string]Request{"control": request(form, `button "Pay twice"`)}
	for i := range reflect.TypeFor[policies.Act]().NumField() {
		other := form
		reflect.ValueOf(&other).Elem().Field(i).SetString("other")
		others[reflect.TypeFor[policies.Act]().Field(i).Name] = request(other, control)
	}
	for what, other := range others {
		for _, scope := range []Scope{Once, Session} {
			d := opened(t, "")
			own := request(form, control)
			a := d.asks(t, own)
			if b := d.asks(t, other); b.ID == a.ID || strings.Join(b.Shown.Lines(), "|") == strings.Join(a.Shown.Lines(), "|") {
				t.Errorf("with another %s it is the same question: %v", what, b.Shown.Lines())
			}
			d.says(t, a.ID, Reply{Yes: true, Scope: scope})
			if d.uses(t, a.ID, other) {
				t.Errorf("a yes for %s is good for another %s", scope, what)
			}
			if !d.uses(t, a.ID, own) {
				t.Errorf("the call itself cannot use its yes for %s", scope)
			}
		}
	}
}
