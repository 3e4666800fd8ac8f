package console

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/printable"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/workspace"
)

// Bounds of the data about a set in one answer.
const (
	mostSets     = 200
	mostChanges  = 10_000
	mostSelected = 1000
	maxDiff      = 512 << 10 // size of a comparison in bytes
	maxDiffLines = 5000
	compareMost  = 20 * time.Second
)

// withSets opens the store of the sets for one request.
func (r *request) withSets(use func(ctx context.Context, s *workspace.Store) (any, error)) (value any, err error) {
	ctx, cancel := context.WithTimeout(r.context(), compareMost)
	defer cancel()
	s, err := workspace.Open(r.views.SetsDir)
	if err != nil {
		return nil, err
	}
	if id := r.named("name"); id != "" {
		err = r.ownsSet(s, id)
	}
	if err == nil {
		value, err = use(ctx, s)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, ofSet(err)
	}
	return value, nil
}

// ownsSet returns an error if id is not the name of a set, or if the set does not belong to
// a tenant of the scope.
func (r *request) ownsSet(s *workspace.Store, id string) error {
	if r.views.scope.all && workspace.CheckName(id) == nil {
		return nil
	}
	info, err := s.Info(id)
	if err == nil && !r.views.scope.Sees(info.Tenant) {
		err = workspace.ErrNotFound
	}
	if err != nil { // the cause may say something about another tenant's set
		return fault(http.StatusNotFound, "the set %.60q does not exist", id)
	}
	return nil
}

// ofSet adds the HTTP status to an error.
func ofSet(err error) error {
	if _, known := errors.AsType[*Error](err); known {
		return err
	}
	for _, conflict := range []error{workspace.ErrChanged, workspace.ErrConflict, workspace.ErrLive, workspace.ErrBusy, workspace.ErrTorn} {
		if errors.Is(err, conflict) {
			return &Error{http.StatusConflict, err}
		}
	}
	if errors.Is(err, workspace.ErrNotFound) {
		return &Error{http.StatusNotFound, err}
	}
	return err
}

// set is a set in a list.
type set struct {
	Name string `json:"name"`
	workspace.Info
	Changes *int   `json:"changes"`
	Why     string `json:"changes_unknown,omitempty"` // reason why they cannot be counted
	Command string `json:"command"`
}

// listSets returns the sets, with the number of paths that each of them changes.
func listSets(r *request) (any, error) {
	if _, err := os.Stat(r.views.SetsDir); errors.Is(err, fs.ErrNotExist) {
		return []set{}, nil // no box has made a set yet
	}
	return r.withSets(func(ctx context.Context, s *workspace.Store) (any, error) {
		all, err := s.List()
		if err != nil {
			return nil, err
		}
		all = seen(r.views.scope, all, func(i *workspace.Info) string { return i.Tenant })
		sets := []set{}
		for _, i := range all[:min(len(all), mostSets)] {
			one := set{Name: i.ID, Info: i, Command: "belljar workspace diff " + i.ID}
			if n, err := s.Count(ctx, i.ID); err == nil {
				one.Changes = &n
			} else {
				one.Why = err.Error()
			}
			sets = append(sets, one)
		}
		return sets, nil
	})
}

// change is a change, and the reason why it would not be applied.
type change struct {
	workspace.Change
	Refused string `json:"refused,omitempty"`
}

// listChanges returns the changes of a set, and the digest that a decision about them must
// name.
func listChanges(r *request) (any, error) {
	return r.withSets(func(ctx context.Context, s *workspace.Store) (any, error) {
		id := r.named("name")
		d, err := s.Changes(ctx, id)
		if err != nil {
			return nil, err
		}
		// A dry run of Apply reports which changes it would refuse.
		dry, err := s.Apply(ctx, id, workspace.Options{DryRun: true, SkipConflicts: true, Guard: protect.Changes})
		if err != nil {
			return nil, err
		}
		why := make(map[string]string)
		for _, skip := range append(dry.Skipped, dry.Conflicts...) {
			why[skip.Path] = skip.Reason
		}
		files := []change{}
		for _, c := range d.Changes[:min(len(d.Changes), mostChanges)] {
			files = append(files, change{c, why[c.Path]})
		}
		return struct {
			Digest string   `json:"digest"`
			Base   string   `json:"base"`
			Live   bool     `json:"live"`
			Files  []change `json:"files"`
			More   int      `json:"more,omitempty"`
		}{d.Digest, d.Base, d.Live, files, len(d.Changes) - len(files)}, nil
	})
}

// diffLine is a line of a comparison.
type diffLine struct {
	Kind string `json:"k"` // "+", "-", "@" for a position, or " "
	Text string `json:"t"`
}

// showDiff compares a path of a set with its workspace.
func showDiff(r *request) (any, error) {
	path := r.in.URL.Query().Get("path")
	if path == "" {
		return nil, fault(http.StatusBadRequest, "the path is missing")
	}
	return r.withSets(func(ctx context.Context, s *workspace.Store) (any, error) {
		var out bounded
		err := s.Unified(ctx, &out, r.named("name"), []string{literal(path)})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
		is := struct {
			Lines  []diffLine `json:"lines"`
			Cut    bool       `json:"cut"`
			Binary bool       `json:"binary"`
		}{Lines: []diffLine{}, Cut: errors.Is(err, errEnough)}
		body := false
		for line := range strings.Lines(out.text.String()) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "diff --git "):
				body = false
			case strings.HasPrefix(line, "@@"):
				body = true
				is.Lines = append(is.Lines, diffLine{"@", line})
			case !body && strings.HasPrefix(line, "Binary files "):
				is.Binary = true
			case body && line != "" && strings.ContainsRune("+- ", rune(line[0])):
				is.Lines = append(is.Lines, diffLine{line[:1], line[1:]})
			}
			if len(is.Lines) >= maxDiffLines {
				is.Cut = true
				break
			}
		}
		dropReturns(is.Lines)
		for i := range is.Lines {
			is.Lines[i].Text = shownLine(is.Lines[i].Text)
		}
		return is, nil
	})
}

// dropReturns removes the carriage return at the end of each line if all lines have one, as
// in files from Windows. If only some lines have one, it is part of the difference.
func dropReturns(lines []diffLine) {
	for _, line := range lines {
		if line.Kind != "@" && !strings.HasSuffix(line.Text, "\r") {
			return
		}
	}
	for i := range lines {
		lines[i].Text = strings.TrimSuffix(lines[i].Text, "\r")
	}
}

// shownLine returns a line of a file in which control characters and hidden characters are
// replaced by codes. Backslashes before such a code, and before text that looks like a
// code, are doubled, so that no two lines look alike.
func shownLine(line string) string {
	var b strings.Builder
	for line != "" {
		rest := strings.TrimLeft(line, `\`)
		slashes := line[:len(line)-len(rest)]
		r, size := utf8.DecodeRuneInString(rest)
		plain := r == '\t' || printable.InLine(r)
		b.WriteString(slashes)
		if rest != "" && !plain || slashes != "" && looksLikeCode(rest) {
			b.WriteString(slashes)
		}
		switch {
		case rest == "":
		case plain:
			b.WriteRune(r)
		default:
			b.WriteString(codeOf(r))
		}
		line = rest[size:]
	}
	return b.String()
}

// looksLikeCode reports whether a text after a backslash begins like a code of codeOf.
func looksLikeCode(text string) bool {
	return strings.HasPrefix(text, "x") || strings.HasPrefix(text, "u{")
}

// errEnough ends a comparison that is longer than a page shows.
var errEnough = errors.New("the comparison is longer than what is shown")

// bounded keeps the beginning of a text, at most maxDiff bytes, and refuses the rest with
// errEnough.
type bounded struct{ text strings.Builder }

// Write adds a text, as far as it fits.
func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxDiff {
		n, _ := b.text.Write(p[:maxDiff-b.text.Len()])
		return n, errEnough
	}
	return b.text.Write(p)
}

// literal returns a pattern that matches only one path, and everything in it.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// chosen is a decision of a person about a set.
type chosen struct {
	Paths  []string `json:"paths"`
	Digest string   `json:"digest"` // digest of all changes of the set that the person saw
}

// readChosen reads a decision from the body of a request.
func readChosen(r *request) (c chosen, err error) {
	if err := r.read(&c); err != nil {
		return c, err
	}
	if c.Digest == "" {
		return c, fault(http.StatusBadRequest, "the digest is missing: a decision names the digest of the changes that it is about")
	}
	if len(c.Paths) > mostSelected {
		return c, fault(http.StatusBadRequest, "%d paths, and at most %d are allowed; choose a directory, or all", len(c.Paths), mostSelected)
	}
	for i, path := range c.Paths {
		if path == "" {
			return c, fault(http.StatusBadRequest, "a path is empty")
		}
		c.Paths[i] = literal(path)
	}
	return c, nil
}

// unchanged returns an error if the set has changed since the person saw it.
func unchanged(ctx context.Context, s *workspace.Store, id, digest string) error {
	d, err := s.Changes(ctx, id)
	if err != nil {
		return err
	}
	if d.Digest != digest {
		return &Error{http.StatusConflict, workspace.ErrChanged}
	}
	return nil
}

// applySet applies changes of a set to its workspace; all changes if the request names no
// path.
func applySet(r *request) (any, error) {
	said, err := readChosen(r)
	if err != nil {
		return nil, err
	}
	return r.withSets(func(ctx context.Context, s *workspace.Store) (any, error) {
		id := r.named("name")
		// The digest of the chosen paths is computed first. If the set changed before that,
		// the digest of the whole set is different in the next check. If the set changes
		// later, Apply notices it.
		part, err := s.Changes(ctx, id, said.Paths...)
		if err != nil {
			return nil, &Error{http.StatusConflict, err}
		}
		if err := unchanged(ctx, s, id, said.Digest); err != nil {
			return nil, err
		}
		info, err := s.Info(id)
		if err != nil {
			return nil, err
		}
		report, err := s.Apply(ctx, id, workspace.Options{Paths: said.Paths, As: part.Digest, Guard: protect.Changes})
		if err != nil {
			return nil, err
		}
		r.views.Server.Decided(Decision{Event: "applied", Tenant: info.Tenant, Set: id, Workspace: report.Base, By: r.who.Name, Paths: len(report.Applied)})
		return report, nil
	})
}

// discardSet removes a set with all its changes.
func discardSet(r *request) (any, error) {
	said, err := readChosen(r)
	if err != nil {
		return nil, err
	}
	if len(said.Paths) > 0 {
		return nil, fault(http.StatusBadRequest, "a set is discarded as a whole; leave the paths out")
	}
	return r.withSets(func(ctx context.Context, s *workspace.Store) (any, error) {
		id := r.named("name")
		if err := unchanged(ctx, s, id, said.Digest); err != nil {
			return nil, err
		}
		info, err := s.Info(id)
		if err != nil {
			return nil, err
		}
		if err := s.Discard(id); err != nil {
			return nil, err
		}
		r.views.Server.Decided(Decision{Event: "discarded", Tenant: info.Tenant, Set: id, Workspace: info.Base, By: r.who.Name})
		return struct{}{}, nil
	})
}
