package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/placefile"
	"belljar.dev/policies"
)

// placeOptions contains the flags of the place commands.
type placeOptions struct {
	state, to, from string
	asJSON, moving  bool
	back            bool // whether the command returns without a wait
}

func placeCommand() *cobra.Command {
	var o placeOptions
	c := &cobra.Command{
		Use:   "place",
		Short: "list, move, export and import the places of a fleet",
		Long: `place moves the places of a fleet between its workers, to files and back. It asks
the front that runs as you on this machine; docs/fleet.md says what is guaranteed meanwhile.

  belljar place list
  belljar place move acme/site --to w2
  belljar place move --all-from w1
  belljar place stop acme/site
  belljar place export acme/site /var/backups/site.place
  belljar place import /var/backups/site.place
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&o.state, stateName, "", "state `directory` of the front (default: $XDG_STATE_HOME/belljar)")
	c.AddCommand(o.listCommand(), o.moveCommand(), o.stopCommand(), o.exportCommand(), o.importCommand())
	return c
}

func (o *placeOptions) listCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "list the places, and how far each move has come", RunE: func(c *cobra.Command, _ []string) error { return o.list(c) }}
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&o.moving, "moving", false, "only places that are being moved")
	c.Flags().StringVar(&o.from, "worker", "", "only places of this `worker`")
	return c
}

func (o *placeOptions) moveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "move [PLACE...]", Short: "move places to another worker",
		Long: `move gives a place to another worker, with its files and all that it keeps. Running calls
have the worker's --drain time to end; what still runs then is ended, and its tasks are
lost. New calls wait, or are told to try again. The steps are: freeze, copy, verify,
decide, put to work, remove. If a machine dies between two of them, the place is at one
worker, with all that was acknowledged: the fronts continue the move when all machines are
back, or the place stays. "belljar place list" says which.

The command waits for the end of each move, and continues with the next place if one does
not move. Its status is 1 if a place stays where it is. If the command ends early, the move
continues.

  belljar place move acme/site --to w2
  belljar place move --all-from w1
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return o.move(c, args) },
	}
	c.Flags().StringVar(&o.to, "to", "", "`worker` that gets the places (default: the one with the fewest)")
	c.Flags().StringVar(&o.from, "all-from", "", "all places of this `worker`, one after the other")
	c.Flags().BoolVar(&o.back, "no-wait", false, "do not wait for the end of the moves")
	return c
}

func (o *placeOptions) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stop PLACE", Short: "give up a move that is not decided; the place stays",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := o.front(c.Context(), "place stop")
			if err != nil {
				return err
			}
			var now fleet.PlaceInfo
			if err := f.Ask(c.Context(), http.MethodPost, "/fleet/stop?place="+url.QueryEscape(args[0]), nil, &now); err != nil {
				return failure(fmt.Errorf("place stop: %w", err))
			}
			return tellPlace(c, now)
		},
	}
}

func (o *placeOptions) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export PLACE FILE", Short: "write a place to a new file",
		Long: `export writes the files of a place and what it keeps (sessions, plans, tasks, answers)
to a new file that only you can read: a tar archive in zstd, with the digest of all. Calls
in the place wait meanwhile, or are told to try again; processes in its boxes are ended.

Sockets and pipes are left out, as are owners, extended attributes and set-id bits. The file
contains what agents and people entrusted to the place: keep it like a password.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := o.front(c.Context(), "place export")
			if err != nil {
				return err
			}
			size, err := export(c.Context(), f, args[0], args[1])
			if err != nil {
				return failure(fmt.Errorf("place export: %w", err))
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is in %s, with %d KiB\n", policies.Clip(args[0], 256), args[1], (size+1023)>>10)
			return failure(err)
		},
	}
}

// export writes a place to a new file, which does not exist if that fails.
func export(ctx context.Context, f *control.Client, place, name string) (size int64, err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%w; name a file that does not exist yet", err)
	}
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(file)
	if err = f.Stream(ctx, control.StreamPath+"export?place="+url.QueryEscape(place), nil, w); err == nil {
		err = errors.Join(w.Flush(), file.Sync())
	}
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(name))
	}
	return size, diskfile.SyncDir(filepath.Dir(name))
}

func (o *placeOptions) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import FILE [PLACE]", Short: "make a place from a file that export has written",
		Long: `import makes a place that does not exist, with the name that it had or another one that
the policy names. Under another name it has the files, and nothing else: sessions and tasks
belong to the name. The file is checked against its digest before the place is put to
work. The digest finds damage, but a forged file can have a digest that matches: import
only files that you trust.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := o.front(c.Context(), "place import")
			if err != nil {
				return err
			}
			now, err := o.bring(c.Context(), f, args)
			if err != nil {
				return failure(fmt.Errorf("place import: %w", err))
			}
			return tellPlace(c, now)
		},
	}
	c.Flags().StringVar(&o.to, "to", "", "`worker` that gets the place (default: the one with the fewest)")
	return c
}

func (o *placeOptions) bring(ctx context.Context, f *control.Client, args []string) (now fleet.PlaceInfo, err error) {
	in, err := os.Open(args[0])
	if err != nil {
		return now, err
	}
	defer in.Close()
	m, err := placefile.Read(bufio.NewReader(in))
	if err != nil {
		return now, fmt.Errorf("%s: %w", args[0], err)
	}
	if len(args) == 2 {
		m.Place = args[1]
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return now, err
	}
	var out bytes.Buffer
	path := control.StreamPath + "import?" + url.Values{"place": {m.Place}, "to": {o.to}}.Encode()
	if err := f.Stream(ctx, path, bufio.NewReaderSize(in, 256<<10), &out); err != nil {
		return now, err
	}
	err = json.Unmarshal(out.Bytes(), &now)
	return now, err
}

// front returns the client of this machine's front. A state directory cannot have several
// fronts.
func (o *placeOptions) front(ctx context.Context, command string) (*control.Client, error) {
	all, err := fronts(ctx, o.state)
	if err != nil {
		return nil, failure(fmt.Errorf("%s: %w", command, err))
	}
	return all[0], nil
}

// maxPlaceList is the largest number of bytes of a list of places.
const maxPlaceList = 512 << 20

func (o *placeOptions) places(ctx context.Context, f *control.Client) (all []fleet.PlaceInfo, err error) {
	out := limited{most: maxPlaceList}
	if err := f.Stream(ctx, control.StreamPath+"places", nil, &out); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return nil, err
	}
	list := []fleet.PlaceInfo{}
	for _, p := range all {
		if (!o.moving || p.Moving) && (o.from == "" || p.Worker == o.from) {
			list = append(list, p)
		}
	}
	return list, nil
}

// limited is a buffer with a bound.
type limited struct {
	bytes.Buffer

	most int
}

// Write appends p to the buffer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.most {
		return 0, errors.New("the answer is too long")
	}
	return l.Buffer.Write(p)
}

func (o *placeOptions) list(c *cobra.Command) error {
	f, err := o.front(c.Context(), "place list")
	if err != nil {
		return err
	}
	all, err := o.places(c.Context(), f)
	if err != nil {
		return failure(fmt.Errorf("place list: %w", err))
	}
	if o.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	w := newTable(c.OutOrStdout())
	fmt.Fprintln(w, "PLACE\tWORKER\tMOVES\tSTATE\tLAST MOVE")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", policies.Clip(p.Place, 256), policies.Clip(orDash(p.Worker), 63), p.Move, policies.Clip(p.State, 300), policies.Clip(orDash(p.Said), 300))
	}
	return failure(w.Flush())
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (o *placeOptions) move(c *cobra.Command, args []string) error {
	if (len(args) > 0) == (o.from != "") {
		return usage("place move: name places, or a worker with --all-from")
	}
	f, err := o.front(c.Context(), "place move")
	if err != nil {
		return err
	}
	if o.from != "" {
		all, err := o.places(c.Context(), f)
		if err != nil {
			return failure(fmt.Errorf("place move: %w", err))
		}
		for _, p := range all {
			if !p.Moving {
				args = append(args, p.Place)
			}
		}
	}
	return o.moveAll(c, f, args)
}

// moveAll moves places, one after the other. A place that does not move does not keep the
// others from being moved.
func (o *placeOptions) moveAll(c *cobra.Command, f *control.Client, all []string) error {
	var failed []error
	stayed := false
	for i, place := range all {
		now, err := o.moveOne(c.Context(), f, place)
		if err != nil {
			failed = append(failed, fmt.Errorf("place move: %w", err))
			// in this case all other moves fail as well
			if _, away := errors.AsType[*url.Error](err); away || c.Context().Err() != nil {
				if rest := all[i+1:]; len(rest) > 0 {
					failed = append(failed, fmt.Errorf("place move: %d more were not tried, beginning with %s", len(rest), policies.Clip(rest[0], 256)))
				}
				break
			}
			continue
		}
		stayed = stayed || !now.Moving && now.Worker != now.To
		if err := tellPlace(c, now); err != nil {
			return err
		}
	}
	if stayed && len(failed) == 0 {
		return failure(errors.New("place move: not every place has moved; the lines above say why"))
	}
	return failure(errors.Join(failed...))
}

// moveOne moves a place, and waits for the end of the move. The To of the result is the worker
// that should have the place.
func (o *placeOptions) moveOne(ctx context.Context, f *control.Client, place string) (now fleet.PlaceInfo, err error) {
	want := map[string]string{"place": place, "to": o.to}
	if err := f.Ask(ctx, http.MethodPost, "/fleet/move", want, &now); err != nil {
		return now, err
	}
	to := now.To
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for !o.back && now.Moving {
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-look.C:
		}
		if err := f.Ask(ctx, http.MethodGet, "/fleet/place?place="+url.QueryEscape(place), nil, &now); err != nil {
			return now, fmt.Errorf("the front does not answer, and the move of %s may continue: %w", policies.Clip(place, 256), err)
		}
	}
	now.To = to
	return now, nil
}

// lookAgain is the pause between two checks of the progress of a move.
const lookAgain = 100 * time.Millisecond

// tellPlace prints where a place is now.
func tellPlace(c *cobra.Command, now fleet.PlaceInfo) error {
	text := now.Said
	if text == "" || now.Moving {
		text = now.State
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: worker %s, %s\n", policies.Clip(now.Place, 256), policies.Clip(orDash(now.Worker), 63), policies.Clip(text, 500))
	return failure(err)
}
