package browser_test

import (
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
)

// TestLateContent checks that content that a page shows late, after a time or when it is
// scrolled to, is waited for if the page shows signs of it, and otherwise not.
func TestLateContent(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.serveApp()
	long := `<div style="height:3000px">` + strings.Repeat("some words here ", 30) + "</div>"
	const drawn = "drawn late, and of some length so that it is not next to nothing"
	for _, tt := range []struct {
		name, src string
		want      []string // parts of the page
		unwanted  string
		note      string
	}{
		{name: "timer", src: `<div id=root></div><script>setTimeout(() => root.textContent = "` + drawn + `", 300)</script>`, want: []string{drawn}},
		{name: "timer in an app with a menu", src: `<nav>` + strings.Repeat("a menu entry ", 20) + `</nav><div id=root>Loading</div><script>setTimeout(() => root.textContent = "` + drawn + `", 300)</script>`, want: []string{drawn}},
		{name: "placeholder", src: `<p id=x>Loading...</p><script>setTimeout(() => x.textContent = "` + drawn + `", 500)</script>`, want: []string{drawn}},
		{name: "in a shadow", src: `<my-app></my-app><script>document.querySelector("my-app").attachShadow({mode: "open"}).innerHTML = "<p>` + drawn + `</p><p id=late></p>"; setTimeout(() => document.querySelector("my-app").shadowRoot.querySelector("#late").textContent = "too late", 1000)</script>`, want: []string{drawn}, unwanted: "too late"},
		{name: "fetched by a listener", src: `<div id=d>` + long + `</div><footer>end</footer><script>let n = 0; addEventListener("scroll", () => {
			if (scrollY + innerHeight > document.body.scrollHeight - 50 && n++ < 3) { const i = n; fetch("/data").then(() => d.insertAdjacentHTML("beforeend", "<p style='height:500px'>more " + i)); } })</script>`, want: []string{">more 1", ">more 3"}},
		{name: "fetched without an end", src: `<main id=d>` + long + `</main><div id=end></div><script>let n = 0; new IntersectionObserver(es => {
			if (es[0].isIntersecting) fetch("/data").then(() => d.insertAdjacentHTML("beforeend", "<p style='height:1500px'>more " + ++n)) }).observe(end)</script>`, want: []string{">more 1", ">more 4"}, unwanted: ">more 20", note: "more text may follow"},
		{name: "images without a source", src: `<main>` + long + `<img alt=a id=one><div style="height:3000px"></div><img alt=b id=two></main><script>
			const o = new IntersectionObserver(es => es.forEach(e => e.isIntersecting && (e.target.src = "/data?" + e.target.id))); o.observe(one); o.observe(two)</script>`, want: []string{"/data?one", "/data?two"}},
		{name: "sections", src: `<main>` + long + `<div class=lazy-section id=one style="height:2000px"></div><div class=lazy-section id=two style="height:2000px"></div></main><footer>end</footer><script>
			const o = new IntersectionObserver(es => es.forEach(e => e.isIntersecting && (e.target.textContent = "filled " + e.target.id))); o.observe(one); o.observe(two)</script>`, want: []string{"filled one", "filled two"}},
		{name: "a part that scrolls", src: `<body style="margin:0;height:100vh;overflow:hidden"><main style="height:100vh;overflow:auto">` + long + `<div id=end></div></main><script>let n = 0; new IntersectionObserver(es => {
			if (es[0].isIntersecting && n++ < 3) end.insertAdjacentHTML("beforebegin", "<p style='height:1500px'>more " + n) }).observe(end)</script>`, want: []string{">more 1", ">more 3"}},
		{name: "by a timer", src: `<main id=d>` + long + `</main><div id=sentinel>Loading</div><script>let n = 0; new IntersectionObserver(es => {
			if (es[0].isIntersecting && n < 3) setTimeout(() => d.insertAdjacentHTML("beforeend", "<p style='height:1500px'>more " + ++n), 80) }).observe(sentinel)</script>`, want: []string{">more 1", ">more 3"}},
		{name: "hardly taller than the window", src: `<body style="margin:0"><main id=d><p style="height:calc(100vh + 40px)">some words</main><div id=sentinel>Loading</div><script>let n = 0; new IntersectionObserver(es => {
			if (es[0].isIntersecting && n++ < 3) fetch("/data").then(() => d.insertAdjacentHTML("beforeend", "<p style='height:1500px'>more " + n)) }).observe(sentinel)</script>`, want: []string{">more 1", ">more 3"}},
		{name: "without signs", src: `<main>` + long + `</main><footer>end</footer><p id=x>not scrolled</p><script>window.seen = setInterval(() => { if (scrollY > 0) x.textContent = "scrolled"; }, 1)</script>`, want: []string{"not scrolled"}},
		{name: "read at the top", src: `<main>` + long + `</main><p id=x>at the top</p><div id=sentinel></div><script>addEventListener("scroll", () => x.textContent = scrollY > 0 ? "below" : "at the top again")</script>`, want: []string{"at the top again"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := "/" + strings.ReplaceAll(tt.name, " ", "-")
			r.page(path, "<!doctype html><title>Late</title>"+tt.src)
			start := time.Now()
			l := r.must(browser.Request{URL: r.url(path), Scrolls: 12})
			slow := time.Since(start) > 2500*time.Millisecond // the page had no time to be scrolled to its end
			for _, want := range tt.want {
				if !strings.Contains(l.HTML, want) {
					t.Errorf("%q is missing in %s", want, l.HTML)
				}
			}
			if tt.unwanted != "" && strings.Contains(l.HTML, tt.unwanted) {
				t.Errorf("%q is in %s", tt.unwanted, l.HTML)
			}
			if notes := strings.Join(l.Notes, "\n"); tt.note == "" && notes != "" && !slow || !strings.Contains(notes, tt.note) {
				t.Errorf("notes: got %q, want %q", notes, tt.note)
			}
		})
	}
}
