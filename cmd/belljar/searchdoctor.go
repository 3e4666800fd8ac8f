package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/sandbox/egress"
	"belljar.dev/search"
	"belljar.dev/search/engine"
)

// doctoring contains the flags and arguments of `search doctor`.
type doctoring struct {
	bodies       string
	live, asJSON bool
	names        []string
}

func searchDoctorCommand() *cobra.Command {
	var d doctoring
	dir := ""
	c := &cobra.Command{
		Use:   "doctor [ENGINE...]",
		Short: "check whether the files of the engines fit their answers",
		Long: `doctor parses recorded answers with the engines' files as they are now, and says
of each whether it means what it should. It reads the few that come with belljar
and needs no network.

With --bodies DIR it reads those that DIR/index.tsv lists, and prints a table
divided by tabs: engine, file, outcome, count, first title and first url. The
first line of an index names its columns: engine and file, and what is expected
in organic, outcome, first_title and first_url, of which each may be missing.
What differs from that is reported on standard error.

With --live it asks each engine one harmless query instead, through the egress
door with the engines' hosts only. Nothing else makes doctor ask an engine.

Exit status: 0 all is as expected; 1 it is not; 2 the command line is not
valid.`,
		Example: "  belljar search doctor\n  belljar search doctor --bodies recorded > now.tsv\n  belljar search doctor --live wikipedia mojeek",
		RunE: func(c *cobra.Command, args []string) error {
			if d.live && d.bodies != "" {
				return usage("--live asks the engines, and --bodies what was recorded: choose one")
			}
			engines, err := loadEngines(dir)
			if err != nil {
				return failure(err)
			}
			for _, name := range args {
				if engines.Find(name) == nil {
					return usage("engine %q does not exist; `belljar search engines` lists those that do", name)
				}
			}
			d.names = args
			return d.run(c.Context(), engines, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	filesFlag(c, &dir)
	c.Flags().StringVar(&d.bodies, "bodies", "", "`directory` with an index.tsv and the bodies that it lists")
	c.Flags().BoolVar(&d.live, "live", false, "ask the engines themselves")
	c.Flags().BoolVar(&d.asJSON, "json", false, "print JSON")
	return c
}

// run examines the engines and prints the results. The error says how many of them are
// wrong.
func (d *doctoring) run(ctx context.Context, engines *engine.Set, out, errs io.Writer) error {
	var all []engine.Examined
	var err error
	switch {
	case d.live:
		all, err = askEngines(ctx, engines, d.names)
	case d.bodies != "":
		all, err = engines.Examine(d.bodies)
	default:
		all, err = engines.ExamineOwn()
	}
	if err != nil {
		return failure(err)
	}
	all = named(engines, all, d.names)
	if d.asJSON {
		err = printExaminedJSON(out, all)
	} else {
		err = printExamined(out, all)
	}
	if err != nil {
		return failure(err)
	}
	wrong := 0
	for _, e := range all {
		if e.Wrong != "" {
			wrong++
			fmt.Fprintf(errs, "%s: %s\n", strings.Trim(e.Engine+" "+e.File, " "), e.Wrong)
		}
	}
	if wrong > 0 {
		return failure(fmt.Errorf("%d of %d answers are not as expected; docs/search.md says how to fix an engine", wrong, len(all)))
	}
	return nil
}

// named returns the answers of the engines in names, or all if names is empty.
func named(engines *engine.Set, all []engine.Examined, names []string) []engine.Examined {
	if len(names) == 0 {
		return all
	}
	want := make(map[*engine.Engine]bool)
	for _, n := range names {
		want[engines.Find(n)] = true
	}
	var some []engine.Examined
	for _, e := range all {
		if want[engines.Find(e.Engine)] {
			some = append(some, e)
		}
	}
	return some
}

// printExamined prints a table divided by tabs, for people and for diff.
func printExamined(out io.Writer, all []engine.Examined) error {
	var b bytes.Buffer
	b.WriteString("engine\tfile\toutcome\tcount\tfirst_title\tfirst_url\n")
	for _, e := range all {
		title, address := e.First()
		fmt.Fprintf(&b, "%s\t%s\t%s\t%d\t%s\t%s\n", cell(e.Engine), cell(e.File), e.Parsed.Outcome, e.Count(), cell(title), cell(address))
	}
	_, err := out.Write(b.Bytes())
	return err
}

// examinedInfo is an examined answer in the JSON output.
type examinedInfo struct {
	Engine     string `json:"engine"`
	File       string `json:"file,omitempty"`
	Outcome    string `json:"outcome"`
	Count      int    `json:"count"`
	FirstTitle string `json:"first_title,omitempty"`
	FirstURL   string `json:"first_url,omitempty"`
	Detail     string `json:"detail,omitempty"`
	Wrong      string `json:"wrong,omitempty"`
}

func printExaminedJSON(out io.Writer, all []engine.Examined) error {
	infos := make([]examinedInfo, 0, len(all))
	for _, e := range all {
		title, address := e.First()
		infos = append(infos, examinedInfo{
			Engine: e.Engine, File: e.File, Outcome: e.Parsed.Outcome.String(), Count: e.Count(),
			FirstTitle: title, FirstURL: address, Detail: e.Parsed.Detail, Wrong: e.Wrong,
		})
	}
	return printJSON(out, infos)
}

// liveTimeout bounds one live query.
const liveTimeout = 10 * time.Second

// askEngines sends queries to the engines themselves: to the default engines and the
// reserves, or to those in names. It does so one after the other, because there is no
// hurry.
func askEngines(ctx context.Context, engines *engine.Set, names []string) ([]engine.Examined, error) {
	var some []*engine.Engine
	for _, e := range engines.All() {
		if e.Use == engine.UseDefault || e.Use == engine.UseReserve {
			some = append(some, e)
		}
	}
	if len(names) > 0 {
		some = nil
		for _, n := range names {
			some = append(some, engines.Find(n))
		}
	}
	ctx, cancel := signal.NotifyContext(ctx, stop...)
	defer cancel()
	door, err := egress.New(egress.Config{Egress: search.DoctorEgress(some, nil), Profile: "search doctor"})
	if err != nil {
		return nil, err
	}
	defer door.Close()
	var all []engine.Examined
	for _, e := range some {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		limited, done := context.WithTimeout(ctx, liveTimeout)
		all = append(all, search.ExamineLive(limited, door.Client(), e, nil))
		done()
	}
	return all, nil
}
