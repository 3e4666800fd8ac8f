package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"belljar.dev/internal/demo"
)

// demoCommand runs a small server that needs no policy, no box and no state.
func demoCommand() *cobra.Command {
	var wrongID, files bool
	var dir string
	c := &cobra.Command{
		Use:   "demo-server",
		Short: "a small MCP server over stdio, to try a client or a gateway with",
		Long: `demo-server speaks MCP of 2024-11-05 on standard input and output, as a client
starts it, and ends at the end of input. It has the tools add and multiply, which
compute with whole numbers, and Calculator, which reads arithmetic such as
(1.5-0.5)÷4, but no sentences. It serves nothing before the notification
initialized. With --file-server it has the tool read_file instead, for the files
below a directory. It uses no policy and no box, opens no port, starts no
program and keeps nothing.
` + exitHelp,
		Example: `  belljar demo-server
  belljar demo-server --file-server --root docs`,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("root") && !files {
				return misused(c, "--root needs --file-server")
			}
			server := demo.Arithmetic()
			if files {
				root, err := os.OpenRoot(dir)
				if err != nil {
					return failure(fmt.Errorf("demo-server: %w", err))
				}
				defer root.Close()
				server = demo.Files(root)
			}
			server.WrongID = wrongID
			return failure(server.Serve(c.InOrStdin(), c.OutOrStdout()))
		},
	}
	c.Flags().BoolVar(&wrongID, "wrong-id", false, "answer initialize with the id 0, like some servers")
	c.Flags().BoolVar(&files, "file-server", false, "serve the files below a directory, with the tool read_file")
	c.Flags().StringVar(&dir, "root", ".", "serve the files below `DIR`")
	return c
}
