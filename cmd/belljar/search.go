package main

import "github.com/spf13/cobra"

func searchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "search [QUERY...]",
		Short: "ask the search engines",
		Long: `search asks the engines of WebSearch through the same checks as a client's call,
and prints what they found. "search engines" lists the engines, and "search
doctor" says whether their files still fit what they answer.

Exit status: 0 there is an answer, even if it is that there are no results; 1
there is no answer, and the text says why; 2 the command line is not valid.`,
	}
	searchQuery(c)
	c.AddCommand(searchEnginesCommand(), searchDoctorCommand())
	return c
}
