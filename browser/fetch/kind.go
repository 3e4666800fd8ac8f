package fetch

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"belljar.dev/policies"
)

// MediaType returns the media type of a Content-Type, in lower case; empty if the
// Content-Type is empty.
func MediaType(contentType string) string {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		t, _, _ = strings.Cut(contentType, ";")
	}
	return strings.ToLower(strings.TrimSpace(t))
}

// IsImage reports whether a media type is that of an image.
func IsImage(mediaType string) bool { return strings.HasPrefix(mediaType, "image/") }

// readable refuses a response before its body is read if the body is certainly neither text
// nor an image. A response without a type is judged later.
func readable(u *url.URL, header http.Header) error {
	t := MediaType(header.Get("Content-Type"))
	what, instead := "", "look for a page that describes it"
	major, minor, _ := strings.Cut(t, "/")
	switch major {
	case "video", "audio":
		what, instead = major, "look for a transcript"
	case "font", "model":
		what = "a " + major
	case "multipart":
		what = "a multipart stream"
	case "application":
		switch {
		case strings.Contains(minor, "officedocument"), strings.Contains(minor, "opendocument"), minor == "msword", strings.HasPrefix(minor, "vnd.ms-"):
			what, instead = "an office document", "look for the same text as a page or a PDF"
		case minor == "zip" || minor == "gzip" || minor == "x-gzip" || minor == "x-tar" || minor == "x-bzip2" || minor == "x-xz" || minor == "zstd" ||
			minor == "x-7z-compressed" || minor == "vnd.rar" || minor == "x-rar-compressed" || minor == "java-archive" || minor == "epub+zip":
			what = "an archive"
		case minor == "wasm" || minor == "x-executable" || minor == "x-msdownload" || minor == "vnd.debian.binary-package" || minor == "x-rpm" ||
			minor == "x-iso9660-image" || minor == "x-apple-diskimage" || minor == "vnd.android.package-archive" || minor == "x-sqlite3" || minor == "vnd.sqlite3":
			what = "a program or a disk image"
		}
	}
	if what == "" {
		return nil
	}
	return &Error{
		Kind: KindType, Type: t, URL: u.String(),
		Message: fmt.Sprintf("the address %s leads to %s (%s), which cannot be read as text", policies.Clip(u.String(), 300), what, policies.Clip(t, 80)),
		Instead: instead,
	}
}

// isHTML reports whether a body is HTML: by its Content-Type, or else by its beginning.
func isHTML(contentType string, body []byte) bool {
	switch MediaType(contentType) {
	case "text/html", "application/xhtml+xml":
		return true
	case "", "application/octet-stream":
		return strings.HasPrefix(http.DetectContentType(body), "text/html")
	}
	return false
}
