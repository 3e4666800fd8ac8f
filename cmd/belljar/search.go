package main

import "github.com/spf13/cobra"

func searchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "search QUERY...",
		Short: "ask the search engines",
		Long: `search asks the engines of WebSearch through the same checks as a client's call,
and prints what they found.

Exit status: 0 there is an answer, even if it is that there are no results; 1
there is none, and the text says why; 2 the command line makes no sense.`,
	}
	searchQuery(c)
	return c
}
