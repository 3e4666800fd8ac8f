package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/images"
)

// imaging contains what the image commands share.
type imaging struct {
	state  string
	asJSON bool
}

func imageCommand() *cobra.Command {
	i := &imaging{}
	c := &cobra.Command{
		Use:   "image",
		Short: "keep root file systems for boxes",
		Long: `image keeps root file systems below the state directory. A profile of the
policy chooses one for its boxes by fs.image; they share it, and none can change
it.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&i.state, "state", "", "`directory` for what outlives the program (default: $XDG_STATE_HOME/belljar)")
	c.PersistentFlags().BoolVar(&i.asJSON, "json", false, "print JSON for programs")
	c.AddCommand(i.importCommand(), i.listCommand(), i.removeCommand(), i.pruneCommand())
	return c
}

// store opens the store of images. find determines the state directory from --state.
func (i *imaging) store(find func(string) (string, error)) (*images.Store, error) {
	state, err := find(i.state)
	if err != nil {
		return nil, failure(err)
	}
	s, err := images.Open(images.Config{Dir: filepath.Join(state, sandbox.ImagesDir)})
	return s, failure(err)
}

func (i *imaging) importCommand() *cobra.Command {
	var ref string
	c := &cobra.Command{
		Use:   "import [flags] NAME SOURCE",
		Short: "unpack an image and give it a name",
		Long: `import unpacks SOURCE: the directory of an OCI image layout, such a layout in a
tar archive, what "docker save" writes, or a tar archive of a root file system,
by itself or compressed by gzip, zstd or bzip2. "-" is standard input:

  docker save debian:12 | belljar image import debian:12 -
  xz -dc root.tar.xz | belljar image import debian:12 -

A name that is in use stands for the new image afterwards. A source with
something that no image may contain is refused as a whole, and leaves nothing
behind; docs/images.md has the list.
` + exitHelp,
		Args: exactly(2, "the image's name and its source, as in `belljar image import debian:12 debian.tar`"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := i.store(config.FindState)
			if err != nil {
				return err
			}
			src := images.Source{Path: args[1], Ref: ref}
			if args[1] == "-" {
				src.Reader = c.InOrStdin()
			}
			r, err := s.Import(c.Context(), args[0], src)
			if err != nil {
				return failure(err)
			}
			return i.print(c, r, func(w io.Writer) { imported(w, r) })
		},
	}
	c.Flags().StringVar(&ref, "ref", "", "which image of a source that contains several: its reference or tag")
	return c
}

// imported prints the result of an import for people.
func imported(w io.Writer, r images.Report) {
	if r.Known {
		fmt.Fprintf(w, "%s is %s, which was here already\n", r.Name, r.Digest)
	} else {
		fmt.Fprintf(w, "%s is %s: %d entries, %s\n", r.Name, r.Digest, r.Entries, size(r.Bytes))
	}
	if r.Replaced != "" {
		fmt.Fprintf(w, "the previous image of this name is %s; `belljar image prune` removes images without a name\n", r.Replaced)
	}
	if d := r.Dropped; d != (images.Dropped{}) {
		fmt.Fprintf(w, "left out: %d entries of /dev, %d setuid or setgid bits, %d extended attributes\n", d.Devices, d.Setuid, d.Xattrs)
	}
	if user := r.Runtime.User; user != "" {
		fmt.Fprintf(w, "in a box, its user %s becomes agent, the only user there\n", user)
	}
}

// size returns a number of bytes in a form for people.
func size(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// print prints v as JSON, or calls people to print it.
func (i *imaging) print(c *cobra.Command, v any, people func(io.Writer)) error {
	if !i.asJSON {
		people(c.OutOrStdout())
		return nil
	}
	enc := json.NewEncoder(c.OutOrStdout())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return failure(fmt.Errorf("print: %w", err))
	}
	return nil
}

func (i *imaging) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the images",
		Long:  "list prints the images by name; with --json an array of objects.\n" + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := i.store(config.KnownState)
			if err != nil {
				return err
			}
			list, err := s.List()
			if err != nil {
				return failure(err)
			}
			return i.print(c, list, func(out io.Writer) {
				w := newTable(out)
				fmt.Fprintln(w, "NAME\tDIGEST\tSIZE\tENTRIES\tIMPORTED")
				for _, m := range list {
					fmt.Fprintf(w, "%s\t%.19s\t%s\t%d\t%s\n", m.Name, m.Digest, size(m.Bytes), m.Entries, m.Created.Format(time.DateTime))
				}
				w.Flush()
			})
		},
	}
}

func (i *imaging) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "remove an image",
		Long: `rm removes a name, and the image behind it if no other name stands for that. An
image that a box uses is not removed.
` + exitHelp,
		Args: exactly(1, "the image's name"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := i.store(config.KnownState)
			if err != nil {
				return err
			}
			return failure(s.Remove(c.Context(), args[0]))
		},
	}
}

func (i *imaging) pruneCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "prune",
		Short: "remove images without a name",
		Long: `prune removes the images that have no name any more and that no box uses, and
prints them; with --json an array of objects.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := i.store(config.KnownState)
			if err != nil {
				return err
			}
			gone, err := s.Prune(c.Context())
			if err != nil {
				return failure(err)
			}
			return i.print(c, gone, func(out io.Writer) {
				for _, m := range gone {
					fmt.Fprintf(out, "%s, %s\n", m.Digest, size(m.Bytes))
				}
			})
		},
	}
}
