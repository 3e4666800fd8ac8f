package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/browser/page"
	"belljar.dev/mcp"
)

// fetchOptions contains the flags of `belljar read` for a page that is fetched.
type fetchOptions struct {
	setup
	render  string
	wait    time.Duration
	timeout time.Duration
	asJSON  bool
}

func (f *fetchOptions) flags(c *cobra.Command) {
	f.setup.flags(c)
	c.Flags().StringVar(&f.render, "render", "", "`when` to load the page in a browser: auto, always or never (default: as the policy says)")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait this `time` after the page has loaded, in a browser")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "after this `time`, return the part of the page that has arrived (default 30s)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the structured result as JSON: of the first part, or of all of a saved page")
}

// pageRead contains the members of a result of ReadDocs that are shown to people.
type pageRead struct {
	URL       string   `json:"url"`
	Status    int      `json:"status"`
	Type      string   `json:"type"`
	Rendered  string   `json:"rendered"`
	Title     string   `json:"title"`
	Language  string   `json:"language"`
	Published string   `json:"published"`
	Fetched   string   `json:"fetched"`
	Extracted string   `json:"extraction"`
	Content   string   `json:"content"`
	Refs      []string `json:"references"`
	Next      int      `json:"next_offset"`
	Bytes     int      `json:"bytes"`
	Truncated bool     `json:"truncated"`
	Partial   string   `json:"partial"`
	Hidden    int      `json:"hidden_chars"`
	Redirect  *struct {
		To string `json:"to"`
	} `json:"redirect"`
	Notes []string `json:"notes"`
}

// arguments returns the arguments for the calls of ReadDocs.
func (f *fetchOptions) arguments(o readOptions) map[string]any {
	args := map[string]any{"url": o.url, "max_chars": 200_000, "full_links": !o.shortLinks}
	for name, v := range map[string]string{"format": o.format, "selector": o.selector, "render": f.render} {
		if v != "" {
			args[name] = v
		}
	}
	for name, off := range map[string]bool{"main_content": o.whole, "include_links": o.omitLinks, "include_images": o.omitImages} {
		if off {
			args[name] = false
		}
	}
	for name, d := range map[string]time.Duration{"wait_ms": f.wait, "timeout_ms": f.timeout} {
		if d != 0 {
			args[name] = d.Milliseconds()
		}
	}
	return args
}

// readURL fetches a page like a call of ReadDocs, and prints all of it.
func readURL(c *cobra.Command, o readOptions, f *fetchOptions) error {
	ctx, cancel := signal.NotifyContext(c.Context(), stop...)
	defer cancel()
	srv, err := f.open(ctx, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer srv.Close()
	session, err := srv.MCP().Open(ctx)
	if err != nil {
		return failure(err)
	}
	defer session.Close()
	args := f.arguments(o)
	var refs []string
	for first := true; ; first = false {
		result, p, err := readPart(ctx, srv.MCP(), session, args)
		if err != nil {
			return err
		}
		switch {
		case f.asJSON:
			return show(c, result, true)
		case p.Content == "" && (p.Redirect != nil || result.IsError), p.Type == "image":
			return show(c, &mcp.Result{Content: result.Content[:1], IsError: true}, false)
		}
		if err := printPart(c.OutOrStdout(), p, first && o.matter); err != nil {
			return failure(err)
		}
		refs = append(refs, p.Refs...)
		if p.Next == 0 {
			if _, err := io.WriteString(c.OutOrStdout(), definitions(refs)); err != nil {
				return failure(fmt.Errorf("print the page: %w", err))
			}
			return pageEnd(c.ErrOrStderr(), p)
		}
		args["offset"] = p.Next
	}
}

// readPart makes one call.
func readPart(ctx context.Context, server *mcp.Server, session *mcp.Session, args map[string]any) (*mcp.Result, pageRead, error) {
	var p pageRead
	text, err := json.Marshal(args)
	if err != nil {
		return nil, p, failure(err)
	}
	result, err := server.Call(ctx, session, "ReadDocs", text)
	if err != nil {
		return nil, p, failure(err)
	}
	if text, err = json.Marshal(result.Structured); err != nil {
		return nil, p, failure(err)
	}
	if result.Structured != nil {
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, p, failure(err)
		}
	}
	return result, p, nil
}

// printPart prints a part of a page, and the front matter before the first part.
func printPart(out io.Writer, p pageRead, matter bool) error {
	if matter {
		about := &page.Page{
			Kind: page.Kind(p.Type), URL: p.URL, Title: p.Title, Language: p.Language, Published: p.Published,
			Extraction: page.Extraction(p.Extracted), Bytes: p.Bytes, Truncated: p.Truncated, Hidden: p.Hidden,
		}
		fetched, _ := time.Parse(time.RFC3339, p.Fetched) // a zero time is left out
		front := about.FrontMatter(page.Meta{Status: p.Status, Fetched: fetched, Rendered: p.Rendered, Partial: p.Partial != ""})
		if _, err := io.WriteString(out, front+"\n"); err != nil {
			return fmt.Errorf("print the page: %w", err)
		}
	}
	if _, err := io.WriteString(out, p.Content); err != nil {
		return fmt.Errorf("print the page: %w", err)
	}
	return nil
}

// pageEnd prints the notes about a page. It returns an error if the server answered with an
// error status, or if this is only a part of the page.
func pageEnd(errs io.Writer, p pageRead) error {
	for _, note := range p.Notes {
		fmt.Fprintf(errs, "belljar: %s\n", cell(note))
	}
	switch {
	case p.Status >= 400:
		return failure(fmt.Errorf("the server answered %d", p.Status))
	case p.Partial != "":
		return failure(errors.New("this is only a part of the page: " + p.Partial))
	}
	return nil
}

// definitions returns the lines that define the references of a page, each line once.
func definitions(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	seen := make(map[string]bool)
	var b strings.Builder
	for _, line := range lines {
		if !seen[line] {
			seen[line] = true
			b.WriteString("\n" + line)
		}
	}
	return b.String() + "\n"
}
