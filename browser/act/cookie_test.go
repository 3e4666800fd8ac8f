package act_test

import (
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

// TestEvalReadsNoCookie checks that an expression cannot read a cookie, neither from the
// document nor through a frame of its origin (BR34).
func TestEvalReadsNoCookie(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>c</title><script>document.cookie = "sid=canary"; document.title = document.cookie</script><iframe></iframe><iframe src="/inner"></iframe>`)
	s.page("/inner", `<p>inner</p><iframe></iframe>`)
	s.goTo(s.url("site", "/"))
	if got := s.eval("document.title"); !strings.Contains(got, "canary") {
		t.Fatalf("the page has no cookie: %s", got)
	}
	for _, text := range []string{"document.cookie", "frames[0].document.cookie", "frames[1].document.cookie", "frames[1].frames[0].document.cookie", "document.querySelector('iframe').contentDocument.cookie"} {
		o, err := s.do(act.Step{Do: act.DoEval, Text: text})
		if err != nil || o.Value != `""` {
			t.Errorf("%s is %+v, %v", text, o, err)
		}
	}
}
