package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/signal"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"belljar.dev/mcp"
)

func callCommand() *cobra.Command {
	var (
		s      = setup{command: "call"}
		asJSON bool
		flow   workflow
	)
	c := &cobra.Command{
		Use:   "call TOOL [JSON | KEY=VALUE...]",
		Short: "call one tool, as a client would",
		Long: `call makes one call through the same checks as a client's, in a session of its
own, prints the text of the result and ends. Arguments are one JSON object, or
pairs such as command=ls timeout=5000; a value that is a JSON number, boolean,
array or object counts as that, and KEY:=VALUE takes any JSON, so that a
string of digits is written command:='"123"'.

  belljar call Bash command='ls -l'
  belljar call Bash '{"command": "sleep 5", "timeout": 1000}'

Exit status: 0 the tool did its work, whatever the status of the command it
ran; 1 it did not, and the text says why; 2 the command line makes no sense.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			arguments, err := parseArguments(args[1:])
			if err != nil {
				return usage("call %s: %w", args[0], err)
			}
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			w, err := s.open(ctx, c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer w.close()
			if w.tracer, err = w.openTracer(ctx, true); err != nil {
				return failure(err)
			}
			defer w.tracer.close(ctx, w.log)
			if err := w.openFlow(ctx, &flow); err != nil {
				return failure(err)
			}
			server, err := w.server()
			if err != nil {
				return err
			}
			var running sync.WaitGroup
			running.Go(func() { w.flow.run(ctx, server) })
			defer running.Wait()
			defer cancel() // first, or it would not end
			session, err := server.Open(ctx)
			if err != nil {
				return failure(fmt.Errorf("call %s: %w", args[0], err))
			}
			defer session.Close()
			result, err := server.Call(ctx, session, args[0], arguments)
			if err != nil {
				return failure(fmt.Errorf("call %s: %w", args[0], err))
			}
			return show(c, result, asJSON)
		},
	}
	s.flags(c)
	s.mode.flag(c)
	s.callsFlag(c)
	s.tenantFlag(c)
	flow.hookFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the structured result as JSON")
	c.Flags().SetInterspersed(true)
	return c
}

// parseArguments is the arguments of a tool from the command line.
func parseArguments(args []string) (json.RawMessage, error) {
	if len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{") {
		if !json.Valid([]byte(args[0])) {
			var v any
			return nil, fmt.Errorf("arguments: %w", json.Unmarshal([]byte(args[0]), &v))
		}
		return json.RawMessage(args[0]), nil
	}
	object := make(map[string]json.RawMessage, len(args))
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("argument %q: want KEY=VALUE, or one JSON object", a)
		}
		raw := json.RawMessage(value)
		if exact, isJSON := strings.CutSuffix(key, ":"); isJSON {
			if key = exact; !json.Valid(raw) {
				return nil, fmt.Errorf("argument %q: what follows := is not JSON", a)
			}
		} else if !json.Valid(raw) || strings.HasPrefix(value, `"`) || value == "null" {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			raw = text
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("argument %q: %s is given twice", a, key)
		}
		object[key] = raw
	}
	return json.Marshal(object)
}

// show prints a result; one that says that the tool did not work is exit
// status 1.
func show(c *cobra.Command, r *mcp.Result, asJSON bool) error {
	var b bytes.Buffer
	if asJSON && r.Structured != nil {
		if err := printJSON(&b, r.Structured); err != nil {
			return err
		}
	} else {
		for _, part := range r.Content {
			if part.MIME == "" {
				b.WriteString(strings.TrimRight(part.Text, "\n") + "\n")
			} else {
				fmt.Fprintf(&b, "(%s, %d bytes)\n", part.MIME, len(part.Data))
			}
		}
	}
	if _, err := c.OutOrStdout().Write(b.Bytes()); err != nil {
		return failure(fmt.Errorf("print the result: %w", err))
	}
	if r.IsError {
		return &statusError{code: exitFailed}
	}
	return nil
}
