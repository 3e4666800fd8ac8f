package demo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/order"
	"belljar.dev/mcp/wire"
)

const (
	maxFile    = 1 << 20 // maximum size of a file in bytes
	maxEntries = 1000    // number of directory entries that are searched for resources
	scheme     = "demo://files/"
)

// Files returns a server that reads only the files below root: no path and no symbolic link
// leads out of root (os.Root). The caller closes root after the last call of Serve has
// returned. The server answers requests also before the notification initialized.
func Files(root *os.Root) *Server {
	f := folder{root}
	return &Server{
		about: `{"protocolVersion":"2024-11-05","capabilities":{"resources":{},"tools":{}},"serverInfo":{"name":"file-server","version":"0.1.0"}}`,
		tools: []tool{{
			"read_file", `{"name":"read_file","description":"Lee un archivo","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`, f.readFile,
		}},
		methods: map[string]method{
			"resources/list":           f.list,
			"resources/templates/list": empty("resourceTemplates"),
			"resources/read":           f.readResource,
			"resources/search":         f.search,
		},
	}
}

// folder is the directory whose files are served.
type folder struct{ root *os.Root }

// read returns the text of a file.
func (f folder) read(name string) (string, error) {
	// Without O_NONBLOCK, opening a FIFO waits for its writer (fifo(7)).
	file, err := f.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			err = failed.Err // the rest of the error names the directory of the server
		}
		return "", fmt.Errorf("read %q: %w; only files below the directory of this server can be read", name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("read %q: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read %q: it is not a regular file", name)
	}
	text := make([]byte, maxFile+1) // the size of a file in /proc is not known before it is read
	n, err := io.ReadFull(file, text)
	switch {
	case err == nil:
		return "", fmt.Errorf("read %q: the file is larger than %d bytes", name, maxFile)
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return "", fmt.Errorf("read %q: %w", name, err)
	case !utf8.Valid(text[:n]):
		return "", fmt.Errorf("read %q: the file is not text in UTF-8", name)
	}
	return string(text[:n]), nil
}

// readFile is the function of the tool. The tool's schema requires no argument, so a call
// without a path is valid, but fails.
func (f folder) readFile(args []byte) (string, error) {
	if wire.Member(args, "path") == nil {
		return "", errors.New(`read_file: the argument "path" is missing: name a file below the directory of this server`)
	}
	path, err := text(args, "path")
	if err != nil {
		return "", err
	}
	return f.read(path)
}

// resource is a file in the directory itself.
type resource struct {
	URI      string `json:"uri"`
	Name     string `json:"name"`
	MimeType string `json:"mimeType"`
}

// having returns the files in the directory whose names contain a text, in the order of
// their names.
func (f folder) having(part string) (any, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	all := []resource{}
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && utf8.ValidString(name) && strings.Contains(name, part) {
			all = append(all, resource{scheme + url.PathEscape(name), name, "text/plain"})
		}
	}
	order.By(all, func(a, b *resource) int { return strings.Compare(a.Name, b.Name) })
	return map[string]any{"resources": all}, nil
}

func (f folder) list([]byte) (any, error) { return f.having("") }

func (f folder) search(params []byte) (any, error) {
	query, err := text(params, "query")
	if err != nil {
		return nil, err
	}
	return f.having(query)
}

func (f folder) readResource(params []byte) (any, error) {
	uri, err := text(params, "uri")
	if err != nil {
		return nil, err
	}
	escaped, ours := strings.CutPrefix(uri, scheme)
	name, err := url.PathUnescape(escaped)
	if !ours || err != nil {
		return nil, wire.Errorf(wire.NotFound, "resource %.64q does not exist", uri)
	}
	contents, err := f.read(name)
	if err != nil {
		return nil, wire.Errorf(wire.NotFound, "%v", err)
	}
	return map[string]any{"contents": []map[string]string{{"uri": uri, "mimeType": "text/plain", "text": contents}}}, nil
}
