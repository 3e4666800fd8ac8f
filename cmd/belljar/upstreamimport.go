package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/policies"
)

// clientFiles are the files in which clients keep their servers, relative to the home
// directory, by client.
var clientFiles = map[string]string{
	"claude-desktop": ".config/Claude/claude_desktop_config.json",
	"claude-code":    ".claude.json",
	"codex":          ".codex/config.toml",
	"cursor":         ".cursor/mcp.json",
	"gemini":         ".gemini/settings.json",
	"vscode":         ".config/Code/User/mcp.json",
}

// importing are the flags and the state of upstream import.
type importing struct {
	*upstreams

	to  string
	yes bool // value of --yes
}

func importCommand(u *upstreams) *cobra.Command {
	i := &importing{upstreams: u}
	c := &cobra.Command{
		Use: "import CLIENT|FILE [NAME...]", Short: "write the servers of a client into a file, without the secrets in them",
		Long: `import reads the servers of a client, from a file or from where the client keeps them, and
writes their entries into a file of servers, as add does. The clients are
` + strings.Join(slices.Sorted(maps.Keys(clientFiles)), ", ") + `. A NAME chooses an entry.

An entry in a file of yours is trusted immediately, with all that it refers to: variables of
belljar's environment, files, secrets. So import asks about a FILE that an agent may have
written, that is, about each file outside your directory of configuration. It shows first
what the entries start, and to what they refer. Without a terminal, --yes is the answer.

What looks like a secret in a variable or a header is put into a file of its own, in the
directory secrets beside your policy, and the entry refers to it. import prints the keys
that your policy needs for these secrets.

import does not change the file of the client. Remove the servers from it: otherwise the
client starts them as well, without a box.

  belljar upstream import claude-desktop
  belljar upstream import .mcp.json github --to servers.json
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			err := i.run(c, args[0], args[1:])
			if _, says := errors.AsType[*statusError](err); says || err == nil {
				return err
			}
			return failure(fmt.Errorf("upstream import: %w", err))
		},
	}
	toFlag(c, &i.to)
	c.Flags().BoolVar(&i.yes, "yes", false, "do not ask")
	return c
}

func (i *importing) run(c *cobra.Command, from string, names []string) error {
	source, known, err := clientFile(from)
	if err != nil {
		return err
	}
	entries, is, err := readClient(source)
	if err != nil {
		if !known && !strings.ContainsAny(from, "/.") {
			err = fmt.Errorf("%w; the clients are %s", err, strings.Join(slices.Sorted(maps.Keys(clientFiles)), ", "))
		}
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e config.Entry) bool { return e.Name == name }) {
			return fmt.Errorf("%s has no entry %q. Nothing was written", policies.Clip(from, 200), policies.Clip(name, 64))
		}
	}
	var drafts []config.Draft
	var needs []need
	var notes []string
	for _, e := range entries {
		if len(names) > 0 && !slices.Contains(names, e.Name) {
			continue
		}
		d, secrets, more := config.NewDraft(e)
		drafts = append(drafts, d)
		for _, s := range secrets {
			needs = append(needs, need{s, e.Name})
		}
		for _, n := range more {
			notes = append(notes, fmt.Sprintf("warning: %s: %s", e.Name, n))
		}
	}
	if len(drafts) == 0 {
		return fmt.Errorf("%s has no entry of a server", policies.Clip(from, 200))
	}
	file, err := openServers(i.to)
	if err != nil {
		return err
	}
	defer file.Close()
	next, cut, err := withEntries(c, file, drafts...)
	if err != nil {
		return err
	}
	if why := i.foreign(c.Context(), is, known); why != "" {
		if err := i.ask(c, source, why, file.name, cut); err != nil {
			return err
		}
	}
	store, err := i.keep(c, needs, func() error { return file.replace(next) })
	if err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(c.OutOrStdout(), policies.Clip(n, 1000))
	}
	printUse(c.OutOrStdout(), file.name)
	printNeeds(c.OutOrStdout(), file.name, store, needs)
	return nil
}

// ask asks the person about the entries of a file that an agent may have written. A person
// cannot agree to an entry that cannot be shown whole.
func (i *importing) ask(c *cobra.Command, source, why, to string, cut []string) error {
	if len(cut) > 0 {
		return fmt.Errorf("%s: what the entry %s starts cannot be shown whole, and an agent may have written it: %s. Nothing was written",
			policies.Clip(source, 200), policies.Clip(cut[0], 64), policies.Clip(why, 300))
	}
	if i.yes {
		return nil
	}
	fmt.Fprintf(c.OutOrStdout(), "An agent may have written %s: %s. In %s, these entries are trusted with all that is shown above.\n",
		policies.Clip(source, 200), policies.Clip(why, 300), policies.Clip(to, 200))
	return agree(c, "look at what is shown", "Are these entries to be written there?", "Nothing was written")
}

// need is a secret that an entry refers to.
type need struct {
	config.Secret

	server string
}

// clientFile returns the path of the file in which a client keeps its servers. If from is
// not the name of a client, it is the path of a file, and known is false.
func clientFile(from string) (file string, known bool, err error) {
	at, known := clientFiles[from]
	if !known {
		file, err = filepath.Abs(from)
		return file, false, err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, at), true, err
}

// readClient returns the entries of a file, and the path of the file that was read. An
// error in a single entry is an error of the file: otherwise only a part of the file would
// be imported.
func readClient(file string) (entries []config.Entry, is string, err error) {
	data, is, err := readOpened(file, maxServersFile)
	if err != nil {
		return nil, "", err
	}
	entries, faults := config.Read(file, data)
	for _, f := range faults {
		if f.Level == config.Error {
			return nil, "", errors.New(strings.TrimSuffix(f.String(), "\n"))
		}
	}
	return entries, is, nil
}

// keep writes each secret into a file of its own next to the policy, and then calls write.
// If write fails, keep removes these files: the client's file still has the values. keep
// returns the directory of the secrets.
func (i *importing) keep(c *cobra.Command, needs []need, write func() error) (dir string, err error) {
	if len(needs) == 0 {
		return "", write()
	}
	home, err := userDir()
	if err != nil {
		return "", err
	}
	boxes, err := i.boxes(c.Context())
	if err == nil {
		err = boxes.Check(home)
	}
	if err != nil {
		return "", fmt.Errorf("the secrets cannot be stored: %w; set XDG_CONFIG_HOME to a directory of yours", err)
	}
	dir = filepath.Join(home, "secrets")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	root, err := openUnlinked(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	var kept []string
	defer func() {
		for _, name := range kept {
			if err != nil {
				err = errors.Join(err, root.Remove(name))
			}
		}
	}()
	for _, n := range needs {
		if n.Value == "" { // the operator has to write this value
			continue
		}
		made, err := keepSecret(root, n)
		if err != nil {
			return "", fmt.Errorf("keep the secret of %s of %s in %s: %w", n.Of, policies.Clip(n.server, 64), policies.Clip(dir, 200), err)
		}
		if made {
			kept = append(kept, n.Name)
		}
	}
	return dir, write()
}

// keepSecret writes a value into a new file, and reports whether it created the file. A
// file that contains another value is not replaced, because another entry may use it.
func keepSecret(dir *os.Root, n need) (made bool, err error) {
	f, err := dir.OpenFile(n.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		old, err := dir.OpenFile(n.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		defer old.Close()
		text, err := readRegular(old, n.Name, maxServersFile)
		if err == nil && string(text) != n.Value {
			err = fmt.Errorf("the file %s exists and has another value; rename it, if no entry uses it", n.Name)
		}
		return false, err
	}
	if err != nil {
		return false, err
	}
	_, err = io.WriteString(f, n.Value)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, errors.Join(err, dir.Remove(n.Name))
	}
	return true, nil
}

// printNeeds prints what the policy needs for the secrets of the entries.
func printNeeds(out io.Writer, file, store string, needs []need) {
	if len(needs) == 0 {
		return
	}
	// a JSON string is also a YAML string
	quote := func(s string) string { return string(printable.JSON([]byte(fmt.Sprintf("%q", s)))) }
	fmt.Fprintf(out, "\nSecrets were taken out. Your policy needs these keys, and `door` in place of `env` keeps a value out of the box:\n\nupstreams:\n  from: %s\n  servers:\n", quote(file))
	of := make(map[string][]string)
	var order []string
	for _, n := range needs {
		if of[n.server] == nil {
			order = append(order, n.server)
		}
		of[n.server] = append(of[n.server], n.Name+": env")
	}
	for _, server := range order {
		fmt.Fprintf(out, "    %s: {secrets: {%s}}\n", quote(server), strings.Join(of[server], ", "))
	}
	fmt.Fprintln(out, "secrets:")
	for _, n := range needs {
		missing := ""
		if n.Value == "" {
			missing = " # write the value there"
		}
		fmt.Fprintf(out, "  %s: {file: %s} # %s of %s%s\n", n.Name, quote(filepath.Join(store, n.Name)), policies.Clip(n.Of, 200), policies.Clip(n.server, 100), missing)
	}
}
