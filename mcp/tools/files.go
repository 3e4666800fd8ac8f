package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// The files of the workspace are resources, file:///workspace/PATH. They are read in the
// session's box, under the policy rule for a command that reads them. So a client sees
// exactly the files that the agent sees: the server does not read the disk in any other
// way.

const (
	filesRoot = "file://" + sandbox.WorkspaceDir + "/"
	// fileMost is the largest result of one read, in bytes: JSON may need six bytes for
	// one, and base64 needs four for three, within a response of 10 MiB.
	fileMost = 4 << 20
	// pathVariable is the environment variable through which the scripts below get their
	// path.
	pathVariable = "BELLJAR_PATH"
	// uriShown bounds a URI in a message, in characters.
	uriShown = 300
)

// The exit statuses of the scripts.
const (
	exitNone    = 44 // no file has this name
	exitOutside = 45 // a link leads out of the workspace
	exitOdd     = 46 // it is neither a file nor a directory
)

// readScript prints a file, or the names in a directory. Each name ends with a NUL, and the
// name of a directory has a slash before the NUL. It runs in any POSIX shell.
var readScript = fmt.Sprintf(`p=$(realpath -- "$%s") && [ -e "$p" ] || exit %d
case $p/ in %s/*) ;; *) exit %d ;; esac
if [ -f "$p" ]; then exec head -c %d -- "$p"; fi
[ -d "$p" ] && cd -- "$p" || exit %d
for f in .* *; do
  case $f in .|..) continue ;; esac
  if [ -d "$f" ]; then printf '%%s/\0' "$f"; elif [ -e "$f" ] || [ -L "$f" ]; then printf '%%s\0' "$f"; fi
done`, pathVariable, exitNone, sandbox.WorkspaceDir, exitOutside, fileMost+1, exitOdd)

// findMost is how many bytes of names a search prints.
const findMost = 64 << 10

// findScript prints the names that contain a text, each followed by a NUL. After findMost
// bytes it stops, if necessary within a name.
var findScript = fmt.Sprintf(`find . -name .git -prune -o -iname "*$%s*" -print0 | head -c %d`, pathVariable, findMost)

// files are the files of the workspace, as the box of the calling session sees them.
type files struct{ shells *shells }

// resource returns the resource family of the files.
func (f *files) resource() mcp.Resource {
	return mcp.Resource{
		Template:    filesRoot + "{+path}",
		Name:        "file",
		Title:       "Files of the workspace",
		Description: "A file of the workspace as this session's box sees it, at most 4 MiB. For a directory, whose path ends in a slash: the names in it. The policy decides about each read as it would about `cat`.",
		Facts:       fileFacts,
		ReadGranted: f.read,
		SearchFacts: func(query string) policies.Facts {
			return policies.Facts{Tool: "Bash", Command: "find . -iname " + quoteWord("*"+query+"*")}
		},
		SearchGranted:   f.find,
		CompleteFacts:   pathFacts,
		CompleteGranted: f.complete,
	}
}

// root returns the resource of the workspace's directory, which clients find in a list.
func (f *files) root() mcp.Resource {
	r := f.resource()
	r.Template, r.Name, r.Title = filesRoot, "workspace", "The workspace"
	r.Description = "The names in the workspace, one on each line; names of directories end in a slash. " + filesRoot + "PATH reads one."
	r.MIME, r.SearchFacts, r.SearchGranted = "text/plain", nil, nil
	r.CompleteFacts, r.CompleteGranted = nil, nil
	r.List = func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
		return []mcp.Entry{{URI: filesRoot, Name: r.Name, Title: r.Title, Description: r.Description, MIME: r.MIME}}, nil
	}
	return r
}

// parseFile returns the path that a uri names, relative to the workspace. It refuses a path
// out of the workspace with an explanation; the box is what enforces the bound.
func parseFile(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%w: %q is not a file of the workspace: want %sPATH", mcp.ErrNotFound, clip(uri, uriShown), filesRoot)
	}
	name, inside := strings.CutPrefix(u.Path, sandbox.WorkspaceDir+"/")
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return "", fmt.Errorf("%w: %q contains characters that no file name here has", mcp.ErrNotFound, clip(uri, uriShown))
	}
	clean := path.Clean("/" + name)
	if want := strings.TrimSuffix("/"+name, "/"); !inside || want != "" && clean != want {
		return "", fmt.Errorf("%w: %q is not a plain path in the workspace: leave out ., .. and double slashes", mcp.ErrNotFound, clip(uri, uriShown))
	}
	return name, nil
}

// fileFacts returns the facts of the command that would show the same file or directory.
func fileFacts(uri string) (policies.Facts, error) {
	name, err := parseFile(uri)
	if err != nil {
		return policies.Facts{}, err
	}
	program := "cat"
	if name == "" || strings.HasSuffix(name, "/") {
		program = "ls"
	}
	return policies.Facts{Tool: "Bash", Command: program + " -- " + quoteWord(sandbox.WorkspaceDir+"/"+name)}, nil
}

// quoteWord quotes a word so that a shell reads it back unchanged.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// read reads a file or a directory in the session's box.
func (f *files) read(ctx context.Context, call mcp.Call, uri string) (data []byte, mime string, err error) {
	name, err := parseFile(uri)
	if err != nil {
		return nil, "", err
	}
	text, code, err := f.inside(ctx, call, readScript, sandbox.WorkspaceDir+"/"+name)
	switch {
	case err != nil:
		return nil, "", err
	case code == exitNone || code == exitOutside:
		// Both cases have the same text: it must not say where a link leads.
		return nil, "", fmt.Errorf("%w: %q does not exist in the workspace, or is a link that leads out of it", mcp.ErrNotFound, clip(name, uriShown))
	case code == exitOdd:
		return nil, "", fmt.Errorf("%q is neither a file nor a directory", clip(name, uriShown))
	case code != 0:
		return nil, "", fmt.Errorf("%q cannot be read in this session's box: exit status %d", clip(name, uriShown), code)
	case len(text) > fileMost:
		return nil, "", fmt.Errorf("%q is larger than %d bytes; read a part of it with Bash", clip(name, uriShown), fileMost)
	case name == "" || strings.HasSuffix(name, "/"):
		return bytes.ReplaceAll(text, []byte{0}, []byte{'\n'}), "text/plain", nil
	}
	return text, kindOf(name, text), nil
}

// kindOf returns the MIME type of a file, from its bytes or, for text, from its name.
func kindOf(name string, text []byte) string {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		kind := http.DetectContentType(text)
		if strings.HasPrefix(kind, "text/") {
			return "application/octet-stream"
		}
		return kind
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown":
		return "text/markdown"
	case ".json":
		return "application/json"
	case ".html", ".htm":
		return "text/html"
	case ".css":
		return "text/css"
	case ".csv":
		return "text/csv"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain"
}

// find returns the files whose names contain a text.
func (f *files) find(ctx context.Context, call mcp.Call, query string) ([]mcp.Entry, error) {
	// Characters with a meaning in a pattern are escaped.
	plain := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(query)
	text, code, err := f.inside(ctx, call, findScript, plain)
	if err != nil || code != 0 {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, 0)+1] // the script may have cut the last name
	var found []mcp.Entry
	for name := range strings.SplitSeq(string(text), "\x00") {
		if name = strings.TrimPrefix(name, "./"); name == "" || name == "." || !utf8.ValidString(name) {
			continue
		}
		found = append(found, mcp.Entry{URI: filesRoot + (&url.URL{Path: name}).EscapedPath(), Name: name})
	}
	return found, nil
}

// inside runs one of the scripts in the session's box. It returns the output, at most
// fileMost+1 bytes, and the exit status.
func (f *files) inside(ctx context.Context, call mcp.Call, script, about string) ([]byte, int, error) {
	if strings.ContainsRune(about, 0) {
		return nil, exitNone, nil
	}
	_, box, _, err := f.shells.enter(ctx, call.Session, call.Grant)
	if err != nil {
		return nil, 0, err
	}
	out := &bounded{left: fileMost + 1}
	result, err := box.Run(ctx, sandbox.Cmd{
		Grant: call.Grant, Shell: script, Dir: sandbox.WorkspaceDir, Env: map[string]string{pathVariable: about},
		Timeout: min(bashTimeout, call.Grant.Limits().Wall), Out: out, Err: &bounded{},
	})
	switch {
	case err != nil:
		return nil, 0, err
	case ctx.Err() != nil:
		return nil, 0, context.Cause(ctx)
	case result.Status != sandbox.Exited:
		return nil, 0, errors.New("the read was ended: " + result.Status.String())
	}
	return out.text, result.Code, nil
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	text []byte
	left int
}

// Write keeps as many bytes as there is room for, and reports all of them as written.
func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.text, b.left = append(b.text, p[:n]...), b.left-n
	return len(p), nil
}

// Completions of file paths are made in the session's box, where files are read too, and
// only if the policy would let `ls` show the directory without asking a person.

// pathsMost bounds the number of names that one completion examines.
const pathsMost = 1000

// pathScript prints the names of a directory that begin with the text after the last slash.
// It gets its path like readScript. Hidden names are printed only if that text begins with
// a dot, which is how a shell completes too.
var pathScript = fmt.Sprintf(`d=$(realpath -- "${%[1]s%%/*}/") || exit %[2]d
case $d/ in %[3]s/*) ;; *) exit %[4]d ;; esac
cd -- "$d" || exit %[2]d
n=0
for f in "${%[1]s##*/}"*; do
  if [ -d "$f" ]; then printf '%%s/\0' "$f"; elif [ -e "$f" ] || [ -L "$f" ]; then printf '%%s\0' "$f"; fi
  n=$((n + 1))
  [ "$n" -lt %[5]d ] || break
done`, pathVariable, exitNone, sandbox.WorkspaceDir, exitOutside, pathsMost)

// pathFacts returns the facts of the command that would show the same directory.
func pathFacts(variable, typed string) (policies.Facts, bool) {
	dir, _ := path.Split(typed)
	if _, err := parseFile(filesRoot + dir); err != nil || variable != "path" || path.IsAbs(typed) || strings.ContainsAny(dir, "%?#") {
		return policies.Facts{}, false
	}
	return policies.Facts{Tool: "Bash", Command: "ls -- " + quoteWord(sandbox.WorkspaceDir+"/"+dir)}, true
}

// complete returns the paths that begin with the typed text. Names with a character that
// has a meaning in a URI are left out: the variable's value is put into a URI unchanged
// (RFC 6570, section 3.2.3).
func (f *files) complete(ctx context.Context, call mcp.Call, _, typed string) ([]string, error) {
	text, code, err := f.inside(ctx, call, pathScript, sandbox.WorkspaceDir+"/"+typed)
	if err != nil || code != 0 {
		return nil, err
	}
	dir, _ := path.Split(typed)
	var values []string
	for name := range strings.SplitSeq(string(text), "\x00") {
		if name != "" && name != "./" && name != "../" && utf8.ValidString(name) && !strings.ContainsAny(name, "%?#") {
			values = append(values, dir+name)
		}
	}
	return values, nil
}
