package page

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// kindOf returns the kind of a document: by its first bytes if they are certain, or else by
// its Content-Type, or else by the end of its URL.
func kindOf(src []byte, o Options) (Kind, error) {
	media, _, _ := mime.ParseMediaType(o.ContentType)
	media = strings.ToLower(media)
	head := bytes.TrimLeft(src[:min(len(src), 1024)], "\xef\xbb\xbf \t\r\n\f")
	if bytes.HasPrefix(head, []byte("%PDF-")) {
		return KindPDF, nil
	}
	switch {
	case media == "" || media == "application/octet-stream" || media == "binary/octet-stream":
	case media == "text/html" || media == "application/xhtml+xml":
		if t := sniffed(src, o.ContentType); t != "" {
			return "", unsupported(t)
		}
		return KindHTML, nil
	case media == "text/markdown" || media == "text/x-markdown":
		return KindMarkdown, nil
	case media == "application/rss+xml" || media == "application/atom+xml" || media == "application/feed+json":
		return KindFeed, nil
	case media == "application/json" || strings.HasSuffix(media, "+json") || media == "text/json" || media == "application/x-ndjson" || media == "application/jsonl":
		return jsonKind(head), nil
	case media == "text/xml" || media == "application/xml" || strings.HasSuffix(media, "+xml") && media != "image/svg+xml":
		return xmlKind(head), nil
	case media == "application/pdf" || media == "application/x-pdf":
		return KindPDF, nil
	case media == "text/plain":
		if t := sniffed(src, o.ContentType); t != "" {
			return "", unsupported(t)
		}
		if ext := extension(o.URL); ext == ".md" || ext == ".markdown" {
			return KindMarkdown, nil
		}
		return KindText, nil
	case strings.HasPrefix(media, "text/"), media == "application/javascript", media == "application/x-yaml", media == "application/yaml", media == "application/toml", media == "application/x-sh", media == "application/sql", media == "application/graphql":
		return KindText, nil
	default:
		return "", unsupported(media)
	}
	if t := sniffed(src, o.ContentType); t != "" {
		return "", unsupported(t)
	}
	switch extension(o.URL) {
	case ".md", ".markdown":
		return KindMarkdown, nil
	case ".txt", ".rst", ".log", ".csv", ".tsv", ".yaml", ".yml", ".toml":
		return KindText, nil
	}
	low := bytes.ToLower(head)
	switch {
	case bytes.HasPrefix(low, []byte("<?xml")) && !bytes.Contains(low, []byte("<html")):
		return xmlKind(head), nil
	case bytes.HasPrefix(low, []byte("<rss")), bytes.HasPrefix(low, []byte("<feed")):
		return KindFeed, nil
	case bytes.HasPrefix(low, []byte("{")), bytes.HasPrefix(low, []byte("[")):
		return jsonKind(head), nil
	case bytes.HasPrefix(low, []byte("<")), len(low) == 0:
		return KindHTML, nil
	case bytes.Contains(low, []byte("<html")), bytes.Contains(low, []byte("<body")), bytes.Contains(low, []byte("<p>")), bytes.Contains(low, []byte("<div")):
		return KindHTML, nil
	}
	if o.ContentType == "" && bytes.Contains(src[:min(len(src), 64<<10)], []byte("</")) {
		return KindHTML, nil
	}
	return KindText, nil
}

// sniffed returns the media type of bytes that are not text, or "". Text with two bytes per
// character has many zero bytes; its Content-Type says so.
func sniffed(src []byte, contentType string) string {
	if low := strings.ToLower(contentType); strings.Contains(low, "utf-16") || strings.Contains(low, "utf-32") {
		return ""
	}
	t, _, _ := mime.ParseMediaType(http.DetectContentType(src))
	if strings.HasPrefix(t, "text/") {
		return ""
	}
	if t == "application/octet-stream" {
		// UTF-16 without a byte order mark looks like this, and so does a page with a stray
		// zero byte. A page does not begin with a run of control characters.
		if controls := bytes.Count(src[:min(len(src), 512)], []byte{0}); controls < 8 || bytes.HasPrefix(src, []byte{0xff, 0xfe}) || bytes.HasPrefix(src, []byte{0xfe, 0xff}) || bytes.HasPrefix(src, []byte{0, 0, 0xfe, 0xff}) {
			return ""
		}
	}
	return t
}

func jsonKind(head []byte) Kind {
	if bytes.Contains(head, []byte("jsonfeed.org/version")) {
		return KindFeed
	}
	return KindJSON
}

func xmlKind(head []byte) Kind {
	low := bytes.ToLower(head)
	switch {
	case bytes.Contains(low, []byte("<rss")), bytes.Contains(low, []byte("<feed")), bytes.Contains(low, []byte("<rdf:rdf")):
		return KindFeed
	case bytes.Contains(low, []byte("<html")), bytes.Contains(low, []byte("<!doctype html")):
		return KindHTML
	}
	return KindXML
}

func extension(u string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return strings.ToLower(path.Ext(parsed.Path))
}

func unsupported(media string) error {
	hint := "download it in a shell and look at it there"
	switch kind, _, _ := strings.Cut(media, "/"); kind {
	case "image":
		hint = "save it to a file and use ReadImage"
	case "audio", "video":
		hint = "look for a page or a transcript that describes it"
	}
	return &UnsupportedError{Type: media, Hint: hint}
}
