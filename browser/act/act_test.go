package act_test

import (
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

const form = `<!doctype html><title>Form &amp; more</title><h1>Orders</h1>
<form action="/sent" method="post">
<label>E-mail <input name="mail" required></label>
<label>Password <input type="password" name="pw"></label>
<label>Country <select name="c"><option>Austria<option>Belgium<option>Chile</select></label>
<label><input type="checkbox" name="news"> News</label>
<button>Send</button> <a href="/next?x=1">Next page</a>
</form>`

func TestFormIsFilledAndSent(t *testing.T) {
	s := open(t)
	s.page("/form", form)
	s.page("/sent", "<h1>Thank you</h1>")
	l := s.goTo(s.url("site", "/form"))
	t.Log(l)
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "E-mail"`), Text: "a@b.example"})
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `password "Password"`), Text: "pä你"})
	s.must(act.Step{Do: act.DoSelect, Ref: s.ref(l, `select "Country"`), Text: "Chile"})
	s.must(act.Step{Do: act.DoCheck, Ref: s.ref(l, `check "News"`)})
	c := s.look(act.LookRequest{At: act.AtChanges})
	t.Log(c)
	for _, want := range []string{`="a@b.example"`, `="Chile" of 3`, "filled", `"News" on`} {
		if !strings.Contains(c, want) {
			t.Errorf("the changes have no %s:\n%s", want, c)
		}
	}
	p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Send"`)})
	if err != nil {
		t.Fatal(err)
	}
	want := act.Facts{
		Kind: act.KindSubmit, On: s.url("site", "/form"), To: s.url("site", "/sent"), Method: "POST", Shown: `button "Send"`,
		Sends: ` sends "E-mail" "a@b.example", "Country" "Chile", "News" "on"`,
	}
	if p.Facts != want {
		t.Errorf("facts are %+v, want %+v", p.Facts, want)
	}
	o, err := s.seat.Do(s.ctx(), p, act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Send"`)})
	if err != nil {
		t.Fatal(err)
	}
	if o.Stop == "" || !strings.HasSuffix(o.URL, "/sent") {
		t.Errorf("the click led to %+v", o)
	}
	if l := s.look(act.LookRequest{}); !strings.Contains(l, "# Thank you") {
		t.Errorf("the page is\n%s", l)
	}
	if s.heard("POST site.example/sent") != 1 {
		t.Errorf("the server heard %v", s.hits)
	}
}
