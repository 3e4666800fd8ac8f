package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
	"belljar.dev/mcp"
)

// searchQuery makes a command query the engines for the words in its arguments.
func searchQuery(c *cobra.Command) {
	var (
		s       = setup{Config: server.Config{Command: "search", Tools: &server.Tools{}}}
		asJSON  bool
		options = make(map[string]any)
		engines []string
	)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, words []string) error {
		if len(words) == 0 {
			return misused(c, "the argument QUERY is missing: want the words to search for")
		}
		options["query"] = strings.Join(words, " ")
		if len(engines) > 0 {
			options["engines"] = engines
		}
		for flag, argument := range map[string]string{
			"category": "category", "language": "language", "region": "region", "safesearch": "safesearch", "since": "time_range",
		} {
			if v, err := c.Flags().GetString(flag); err == nil && v != "" {
				options[argument] = v
			}
		}
		for flag, argument := range map[string]string{"results": "max_results", "page": "page"} {
			if v, err := c.Flags().GetInt(flag); err == nil && c.Flags().Changed(flag) {
				options[argument] = v
			}
		}
		arguments, err := json.Marshal(options)
		if err != nil {
			return failure(err)
		}
		return s.callOnce(c, "WebSearch", arguments, func(_ context.Context, _ *server.Server, _ *mcp.Session, result *mcp.Result) error {
			if asJSON || result.IsError {
				return show(c, result, asJSON)
			}
			return showFound(c.OutOrStdout(), result)
		})
	}
	s.flags(c)
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print the structured result as JSON")
	f.StringSliceVar(&engines, "engines", nil, "`engines` to ask, separated by commas, instead of those of the category")
	f.Int("results", 10, "how many results, up to 50, as a `number`")
	f.Int("page", 1, "`number` of the page of results")
	f.String("category", "", "`name`: general, code, academic or news")
	f.String("language", "", "`code` of the language of the results, such as en")
	f.String("region", "", "`code` of the country to search from, such as US")
	f.String("safesearch", "", "`level`: off, moderate or strict")
	f.String("since", "", "no older than an `age`: a day, week, month or year")
}

// found contains the members of a result of WebSearch that are shown to people.
type found struct {
	Results []struct {
		Title     string `json:"title"`
		URL       string `json:"url"`
		Snippet   string `json:"snippet"`
		Published string `json:"published"`
	} `json:"results"`
	Suggestion string `json:"suggestion"`
	Status     string `json:"status"`
}

// showFound prints results in a form for people.
func showFound(out io.Writer, r *mcp.Result) error {
	text, err := json.Marshal(r.Structured)
	if err != nil {
		return failure(err)
	}
	var v found
	if err := json.Unmarshal(text, &v); err != nil {
		return failure(err)
	}
	var b strings.Builder
	for i, x := range v.Results {
		fmt.Fprintf(&b, "%2d  %s\n    %s\n", i+1, x.Title, x.URL)
		if x.Published != "" {
			x.Snippet = strings.TrimSpace(x.Published + "  " + x.Snippet)
		}
		if x.Snippet != "" {
			b.WriteString("    " + x.Snippet + "\n")
		}
		b.WriteByte('\n')
	}
	if v.Suggestion != "" {
		fmt.Fprintf(&b, "Did you mean: %s\n", v.Suggestion)
	}
	if len(v.Results) == 0 {
		b.WriteString("No results.\n")
	}
	b.WriteString(v.Status + "\n")
	if _, err := io.WriteString(out, b.String()); err != nil {
		return failure(fmt.Errorf("print the results: %w", err))
	}
	return nil
}
