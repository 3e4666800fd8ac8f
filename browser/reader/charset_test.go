package reader_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"belljar.dev/browser/reader"
)

// Ways in which a page names its charset.
const (
	byHeader = "header"
	byMeta   = "meta"
	byMark   = "mark" // the byte order mark
	byBytes  = "bytes"
)

// TestCharsets checks that the words of a page are the same in the end, whatever its
// charset is and however it names it.
func TestCharsets(t *testing.T) {
	const (
		german   = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich."
		polish   = "Zażółć gęślą jaźń, a potem jeszcze raz."
		latvian  = "Glāžšķūņa rūķīši dzērumā čiepj Baha koncertflīģeļu vākus."
		russian  = "Съешь же этих мягких французских булок, да выпей чаю."
		greek    = "Η ταχύτητα και η ποιότητα της γραφής."
		turkish  = "Pijamalı hasta yağız şoföre çabucak güvendi."
		hebrew   = "דג סקרן שט בים מאוכזב ולפתע מצא חברה."
		arabic   = "صف خلق خود كمثل الشمس."
		japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
		chinese  = "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。寒来暑往，秋收冬藏。"
		taiwan   = "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。寒來暑往，秋收冬藏。"
		korean   = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."
		thai     = "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า"
		many     = "Grüße, привет, 世界, שלום \U0001F600."
	)
	declared := []string{byHeader, byMeta}
	known := []string{byHeader, byMeta, byBytes}
	r := newRig(t, false)
	bodies := make(map[string]http.HandlerFunc)
	r.Serve(t, "charset.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { bodies[req.URL.Path](w, req) }))
	g := r.grant(t, "")
	for _, tt := range []struct {
		charset, text string
		how           []string
	}{
		{"utf-8", many, []string{byHeader, byMeta, byMark, byBytes}},
		{"utf-16le", many, []string{byHeader, byMark}},
		{"utf-16be", many, []string{byHeader, byMark}},
		{"windows-1252", german + " Für 5 €.", known},
		{"iso-8859-1", german, known},
		{"iso-8859-15", german + " Für 5 €.", declared},
		{"iso-8859-2", polish, known},
		{"windows-1250", polish, known},
		{"iso-8859-5", russian, known},
		{"windows-1251", russian, known},
		{"koi8-r", russian, known},
		{"ibm866", russian, known},
		{"iso-8859-7", greek, known},
		{"iso-8859-9", turkish, known},
		{"windows-1254", turkish, known},
		{"windows-1257", latvian, known},
		{"iso-8859-8", hebrew, known},
		{"windows-1256", arabic, known},
		{"windows-874", thai, known},
		{"shift_jis", japanese, known},
		{"euc-jp", japanese, known},
		{"iso-2022-jp", japanese, declared},
		{"gbk", chinese, known},
		{"gb2312", chinese, known},
		{"gb18030", chinese, known},
		{"big5", taiwan, known},
		{"euc-kr", korean, known},
	} {
		for _, how := range tt.how {
			t.Run(tt.charset+" by "+how, func(t *testing.T) {
				path := "/" + tt.charset + "/" + how
				bodies[path] = inCharset(t, tt.charset, tt.text, how)
				res, err := r.r.Read(t.Context(), g, reader.Query{URL: "http://charset.example" + path, Whole: true})
				if err != nil {
					t.Fatal(err)
				}
				if want := "# " + tt.text + "\n\n" + strings.TrimSpace(strings.Repeat(tt.text+" ", 12)) + "\n"; res.Page.Content != want {
					t.Errorf("got %.80q (%s), want %.80q", res.Page.Content, res.Page.Charset, want)
				}
			})
		}
	}
}

// inCharset serves a page in a charset, which it names in one way.
func inCharset(t testing.TB, charset, text, how string) http.HandlerFunc {
	t.Helper()
	e, err := htmlindex.Get(charset)
	if err != nil {
		t.Fatal(err)
	}
	page := "<html><head><title>Page</title></head><body><main><h1>" + text + "</h1><p>" + strings.Repeat(text+" ", 12) + "</p></main></body></html>"
	contentType := "text/html"
	switch how {
	case byHeader:
		contentType += "; charset=" + charset
	case byMeta:
		page = strings.Replace(page, "<head>", `<head><meta charset="`+charset+`">`, 1)
	case byMark:
		page = "\ufeff" + page
	}
	b, err := e.NewEncoder().String(page)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, b)
	}
}
