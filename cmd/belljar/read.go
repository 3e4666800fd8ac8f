package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"belljar.dev/browser/page"
	"belljar.dev/internal/server"
)

// readOptions contains the flags of `belljar read`.
type readOptions struct {
	file        string // path of a saved page; if empty, the page is fetched
	url         string
	format      string
	contentType string
	selector    string
	whole       bool
	omitLinks   bool
	shortLinks  bool
	omitImages  bool
	matter      bool
}

func readCommand() *cobra.Command {
	var o readOptions
	fetched := fetchOptions{setup: setup{Config: server.Config{Command: "read", Tools: &server.Tools{}}}}
	c := &cobra.Command{
		Use:   "read [URL]",
		Short: "turn a page of the web into markdown",
		Long: `read prints what a page says as markdown: its main content, or all of it with
--whole. It is fetched as a call of ReadDocs would be, through the same policy
and the same door. With --html FILE it converts a saved page without any
network; --url says where that came from, so that its links become absolute.
` + exitHelp,
		Example: "  belljar read https://go.dev/doc/effective_go\n  belljar read --html saved.html --url https://example.org/a/page",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if o.url != "" {
					return usage("got the URL twice: as an argument and as --url")
				}
				o.url = args[0]
			}
			switch {
			case o.file != "":
				return readFile(c, o, fetched.asJSON)
			case o.url == "":
				return misused(c, "the argument URL is missing: want the address of a page, or --html with a file")
			}
			return readURL(c, o, &fetched)
		},
	}
	f := c.Flags()
	f.StringVar(&o.file, "html", "", "convert this saved `file` instead of fetching one; - is standard input")
	f.StringVar(&o.url, "url", "", "where the saved page came from")
	f.StringVar(&o.format, "format", string(page.Markdown), "markdown, text or html")
	f.StringVar(&o.contentType, "content-type", "", "Content-`Type` that the saved page was served with")
	f.StringVar(&o.selector, "selector", "", "take only what this CSS selector matches")
	f.BoolVar(&o.whole, "whole", false, "take the whole page instead of its main content")
	f.BoolVar(&o.omitLinks, "no-links", false, "write links as their text")
	f.BoolVar(&o.shortLinks, "short-links", false, "write links relative to the page, and repeated ones as references")
	f.BoolVar(&o.omitImages, "no-images", false, "leave images out")
	f.BoolVar(&o.matter, "front-matter", false, "print title, url, language and the like first")
	fetched.flags(c)
	return c
}

// pageOptions returns the options of o for the conversion.
func (o readOptions) pageOptions() page.Options {
	return page.Options{
		URL: o.url, ContentType: o.contentType, Format: page.Format(o.format), Selector: o.selector,
		Whole: o.whole, OmitLinks: o.omitLinks, OmitImages: o.omitImages, ShortLinks: o.shortLinks,
	}
}

// savedRead is a saved page in the JSON output: the members of ReadDocs' structured result
// that need no fetch, with the whole content.
type savedRead struct {
	URL       string   `json:"url,omitempty"`
	Type      string   `json:"type"`
	Format    string   `json:"format"`
	Title     string   `json:"title"`
	Language  string   `json:"language,omitempty"`
	Published string   `json:"published,omitempty"`
	Extracted string   `json:"extraction"`
	Content   string   `json:"content"`
	Bytes     int      `json:"bytes"`
	Truncated bool     `json:"truncated"`
	Hidden    int      `json:"hidden_chars"`
	Notes     []string `json:"notes"`
}

// readFile converts a saved page.
func readFile(c *cobra.Command, o readOptions, asJSON bool) error {
	src, err := savedPage(c, o.file)
	if err != nil {
		return failure(err)
	}
	ctx, cancel := signal.NotifyContext(c.Context(), stop...)
	defer cancel()
	p, err := page.Convert(ctx, src, o.pageOptions())
	if err != nil {
		return failure(err)
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), savedRead{
			URL: p.URL, Type: string(p.Kind), Format: string(p.Format), Title: p.Title, Language: p.Language, Published: p.Published,
			Extracted: string(p.Extraction), Content: p.Content, Bytes: p.Bytes, Truncated: p.Truncated, Hidden: p.Hidden, Notes: append([]string{}, p.Notes...),
		})
	}
	out := c.OutOrStdout()
	if o.matter {
		if _, err := io.WriteString(out, p.FrontMatter(page.Meta{})+"\n"); err != nil {
			return failure(fmt.Errorf("print the page: %w", err))
		}
	}
	if _, err := io.WriteString(out, p.Content+definitions(p.Definitions(p.Content))); err != nil {
		return failure(fmt.Errorf("print the page: %w", err))
	}
	return nil
}

// savedPage reads a file, up to one byte more than is converted, so that a page that is too
// long is detected.
func savedPage(c *cobra.Command, name string) ([]byte, error) {
	in := c.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	var src []byte
	limited := io.LimitReader(in, page.DefaultMaxBytes+1)
	buf := make([]byte, 64<<10)
	for {
		n, err := limited.Read(buf)
		src = append(src, buf[:n]...)
		if err == io.EOF {
			return src, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
}
