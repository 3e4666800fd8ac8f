package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/printable"
	"belljar.dev/policies/audit"
)

func auditReelCommand() *cobra.Command {
	var a auditing
	to := ""
	c := &cobra.Command{
		Use:   "reel CALL",
		Short: "make a page of what an agent did in a browser",
		Long: `reel writes one HTML file with the steps of a call of Browser: for each step, what the
policy decided about, its outcome, and a picture of what the browser showed then. Calls are
recorded at the level full. The file has no script and loads nothing. reel fails, and
writes nothing, if the recording is not the one whose SHA-256 the log has.

  belljar audit reel c-SWOWHVR3 --to steps.html
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if to == "" {
				return usage("audit reel: --to names the file for the page")
			}
			dir, err := a.dir()
			if err != nil {
				return failure(err)
			}
			reel, err := audit.ReadReel(c.Context(), dir, args[0])
			if err == nil {
				err = replace(to, reelPage(args[0], reel))
			}
			if err != nil {
				return failure(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s has %d steps\n", to, len(reel.Frames))
			tellCut(c, reel.Cut)
			return nil
		},
	}
	a.flags(c)
	c.Flags().StringVar(&to, "to", "", "`file` for the page")
	return c
}

// tellCut prints on standard error why a recording is incomplete; cut is empty if it is
// complete.
func tellCut(c *cobra.Command, cut string) {
	if cut != "" {
		fmt.Fprintf(c.ErrOrStderr(), "belljar: audit %s: %s\n", c.Name(), incomplete(cut))
	}
}

// incomplete returns the text about a recording that is incomplete.
func incomplete(cut string) string { return "the recording is incomplete: " + cut }

// reelPage returns the page of a reel. It shows the words of a web page only as text.
func reelPage(callID string, reel audit.Steps) []byte {
	var b bytes.Buffer
	say := func(text string) string { return html.EscapeString(printable.Line(text, 4<<10)) }
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Call %[1]s</title><style>body{font:16px/1.5 sans-serif;max-width:80em;margin:2em auto;padding:0 1em}img{max-width:100%%;border:1px solid #888}p{margin:.2em 0}code{overflow-wrap:anywhere}</style>
<h1>Call %[1]s</h1><p>It began at %[2]s.</p><ol>
`, say(callID), reel.Began.UTC().Format(time.DateTime+" UTC"))
	for i, f := range reel.Frames {
		fmt.Fprintf(&b, "<li><h2>%s</h2><p>After %.1f s: %s</p><p><code>%s</code></p>\n", say(f.Act), f.At, say(f.Did), say(f.URL))
		if len(f.JPEG) > 0 {
			fmt.Fprintf(&b, `<img alt="What the browser showed after step %d" src="data:image/jpeg;base64,%s">`, i+1, base64.StdEncoding.EncodeToString(f.JPEG))
		} else {
			fmt.Fprintf(&b, "<p>No picture: %s</p>", say(f.Why))
		}
		b.WriteString("</li>\n")
	}
	b.WriteString("</ol>")
	if reel.Cut != "" {
		fmt.Fprintf(&b, "<p>%s</p>", say(incomplete(reel.Cut)))
	}
	b.WriteString("</html>\n")
	return b.Bytes()
}
