package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
)

// logging contains the flags for what a server logs on standard error. The zero value logs
// warnings and errors as text.
type logging struct {
	level  string // name of the slog level in lower case; empty means the default
	format string
}

// The values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

func (l *logging) flags(c *cobra.Command) {
	c.Flags().StringVar(&l.level, "log-level", "", "lowest `level` that is logged on standard error: debug, info, warn or error (default: warn over stdio, else info)")
	c.Flags().StringVar(&l.format, "log-format", logText, "`form` of the log: text or json")
}

// logger returns the logger that the flags describe. By default, a server over stdio logs
// less than a service: most clients show its standard error only when something is wrong.
func (l logging) logger(errs io.Writer, service bool) (*slog.Logger, error) {
	level := slog.LevelWarn
	if service {
		level = slog.LevelInfo
	}
	switch l.level {
	case "":
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, err
		}
	default:
		return nil, usage("--log-level %q: want debug, info, warn or error", l.level)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: withShortIDs}
	switch l.format {
	case logJSON:
		return slog.New(slog.NewJSONHandler(errs, options)), nil
	case "", logText:
		return slog.New(slog.NewTextHandler(errs, options)), nil
	}
	return nil, usage("--log-format %q: want text or json", l.format)
}

// withShortIDs cuts the ids of sessions and of their boxes, whichever package logs them.
func withShortIDs(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindString {
		return a
	}
	switch a.Key {
	case "session":
		a.Value = slog.StringValue(control.ShortID(a.Value.String()))
	case "box":
		a.Value = slog.StringValue(control.ShortBox(a.Value.String()))
	}
	return a
}
