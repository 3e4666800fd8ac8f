package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/wire"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	hello       = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// say sends the lines of a client to a server, and returns the answers.
func say(t testing.TB, s *Server, lines ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Serve(strings.NewReader(strings.Join(lines, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// folderWith returns a directory with files, by their names.
func folderWith(t testing.TB, files map[string]string) (dir string, root *os.Root) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, root
}

func TestTranscripts(t *testing.T) {
	_, root := folderWith(t, map[string]string{"hola mundo.txt": "<hola> & adiós\n", "abajo.txt": "", "sub/otro.txt": ""})
	wrong := Arithmetic()
	wrong.WrongID = true
	for name, s := range map[string]*Server{"arithmetic": Arithmetic(), "wrongid": wrong, "files": Files(root)} {
		file := filepath.Join("testdata", name+".txtar")
		a, err := txtar.ParseFile(file)
		if err != nil || len(a.Files) != 2 {
			t.Fatalf("%s: %v, want the sections client and server", file, err)
		}
		client := strings.TrimSuffix(string(a.Files[0].Data), "\n")
		a.Files[1].Data = []byte(strings.Join(say(t, s, client), "\n") + "\n")
		golden.File(t, file, string(txtar.Format(a)))
	}
}

// A message that is sent too early, too late or twice is refused, and changes nothing.
func TestHandshake(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	_, root := folderWith(t, nil)
	refused := `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"invalid request: tools/list came before `
	for _, tt := range []struct {
		name  string
		lines []string
		files bool
		want  string // prefix of the last answer
	}{
		{"nothing before", []string{list}, false, refused + `initialize"}}`},
		{"no notification", []string{hello, list}, false, refused + `the notification notifications/initialized"}}`},
		{"the notification before initialize", []string{initialized, hello, list}, false, refused + `the notification`},
		{"all of it", []string{hello, initialized, list}, false, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add"`},
		{"the notification without its prefix", []string{hello, `{"jsonrpc":"2.0","method":"initialized"}`, list}, false, `{"jsonrpc":"2.0","id":1,"result":`},
		{"files: nothing before", []string{list}, true, refused + `initialize"}}`},
		{"files: no notification", []string{hello, list}, true, `{"jsonrpc":"2.0","id":1,"result":`},
		{"initialize twice", []string{hello, initialized, hello}, false, `{"jsonrpc":"2.0","id":"hello","error":{"code":-32600`},
		{"initialize without a version", []string{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`}, false, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602`},
		{"and again with one", []string{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, hello}, false, `{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2024-11-05"`},
		{"another version", []string{strings.Replace(hello, "2024-11-05", "2025-11-25", 1)}, false, `{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2024-11-05"`},
		{"ping before", []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`}, false, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"a client of the newest revision", []string{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`}, false, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601`},
	} {
		s := Arithmetic()
		if tt.files {
			s = Files(root)
		}
		all := say(t, s, tt.lines...)
		if got := all[len(all)-1]; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A line that is not a request gets one answer or none, and the next one is served.
func TestBadLines(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":"after","method":"ping"}`
	after := `{"jsonrpc":"2.0","id":"after","result":{}}`
	for _, tt := range []struct{ name, line, want string }{
		{"not JSON", `{"jsonrpc":"2.0","id":7]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		{"not JSON, with an id", `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":tru}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32700`},
		{"not UTF-8", "\"\xff\"", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		{"a member twice", `{"jsonrpc":"2.0","id":7,"method":"ping","method":"ping"}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`},
		{"too deep", `{"jsonrpc":"2.0","id":7,"method":"ping","params":` + strings.Repeat(`{"a":`, maxDepth) + `1` + strings.Repeat(`}`, maxDepth) + `}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`},
		{"too long", `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"` + strings.Repeat("x", maxLine) + `"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`},
		{"no version", `{"id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`},
		{"the id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{"a batch", `[` + ping + `]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{"params that are a list", `{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602`},
		{"an unknown method", `{"jsonrpc":"2.0","id":7,"method":"x<y"}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601`},
		{"an unknown notification", `{"jsonrpc":"2.0","method":"notifications/none"}`, ""},
		{"a notification whose params are a list", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`, ""},
		{"an answer", `{"jsonrpc":"2.0","id":7,"result":{}}`, ""},
		{"an empty line", " ", ""},
		{"a byte order mark and CR", "\ufeff" + `{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\r", `{"jsonrpc":"2.0","id":7,"result":{}}`},
	} {
		got := say(t, Arithmetic(), tt.line, ping)
		if tt.want != "" {
			if len(got) != 2 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("%s: got %.300q, want %s and the answer to ping", tt.name, got, tt.want)
			}
			got = got[1:]
		}
		if len(got) != 1 || got[0] != after {
			t.Errorf("%s: got %.300q at the end, want the answer to ping", tt.name, got)
		}
	}
}

// call returns the answer to one call, without the JSON-RPC envelope.
func call(t testing.TB, s *Server, tool, args string) string {
	t.Helper()
	all := say(t, s, hello, initialized, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args))
	answer := all[len(all)-1]
	text, ok := strings.CutPrefix(answer, `{"jsonrpc":"2.0","id":1,`)
	if !ok {
		t.Fatalf("%s %s: got %s", tool, args, answer)
	}
	if value, ok := strings.CutPrefix(text, `"result":{"content":[{"type":"text","text":"`); ok && strings.HasSuffix(value, `"}]}}`) {
		return strings.TrimSuffix(value, `"}]}}`)
	}
	return text
}

func TestIntegers(t *testing.T) {
	for _, tt := range []struct{ tool, args, want string }{
		{"add", `{"a":-2,"b":-0}`, "-2"},
		{"add", `{"a":9223372036854775806,"b":1}`, "9223372036854775807"},
		{"multiply", `{"a":-9223372036854775808,"b":1}`, "-9223372036854775808"},
		{"add", `{"a":1,"b":2,"c":"not looked at"}`, "3"},
		{"add", `{"a":9223372036854775807,"b":1}`, "the result for 9223372036854775807 and 1 is 9223372036854775808"},
		{"multiply", `{"a":-9223372036854775808,"b":-1}`, "which has more than 64 bits"},
		{"add", `{"a":9223372036854775808,"b":1}`, `\"a\" must be a whole number of 64 bits, got 9223372036854775808`},
		{"add", `{"a":1,"b":1.5}`, `\"b\" must be`},
		{"add", `{"a":1,"b":2.0}`, `\"b\" must be`},
		{"add", `{"a":1e3,"b":2}`, `\"a\" must be`},
		{"add", `{"a":"1","b":2}`, `\"a\" must be`},
		{"add", `{"a":null,"b":2}`, `\"a\" must be`},
		{"add", `{"a":1}`, `\"b\" is missing`},
		{"add", `[1,2]`, `\"arguments\" must be an object`},
		{"Calculator", `{"question":3}`, `\"question\" must be a string`},
		{"Calculator", `{}`, `\"question\" is missing`},
		{"divide", `{}`, `tool \"divide\" does not exist`},
	} {
		got := call(t, Arithmetic(), tt.tool, tt.args)
		if strings.Contains(tt.want, " ") {
			if !strings.HasPrefix(got, `"error":{"code":-32602,`) || !strings.Contains(got, tt.want) {
				t.Errorf("%s %s: got %s, want -32602 with %q", tt.tool, tt.args, got, tt.want)
			}
		} else if got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.tool, tt.args, got, tt.want)
		}
	}
}

// No path leads out of the directory, and only small text files are read.
func TestFilesStayBelowTheirDirectory(t *testing.T) {
	dir, root := folderWith(t, map[string]string{
		"in.txt": "within", "sub/deep.txt": "deep", "binary": "\xff\xfe", "full": strings.Repeat("x", maxFile), "large": strings.Repeat("x", maxFile+1),
	})
	secret, _ := folderWith(t, map[string]string{"secret.txt": "SECRET"})
	outside := filepath.Join(secret, "secret.txt")
	up, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"absolute": outside, "relative": up, "folder": secret, "inside": "sub/deep.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, want string
		control    string // what a reader without bounds gets for the same path
	}{
		{"in.txt", "within", "within"},
		{"./sub/../in.txt", "within", "within"},
		{"inside", "deep", "deep"},
		{up, "path escapes from parent", "SECRET"},
		{outside, "path escapes from parent", "SECRET"},
		{"absolute", "path escapes from parent", "SECRET"},
		{"relative", "path escapes from parent", "SECRET"},
		{"folder/secret.txt", "path escapes from parent", "SECRET"},
		{"sub", "it is not a regular file", ""},
		{"fifo", "it is not a regular file", ""},
		{"none", "no such file or directory", ""},
		{"", "empty path", ""},
		{"a\x00b", "invalid argument", ""},
		{"binary", "not text in UTF-8", ""},
		{"full", strings.Repeat("x", 100), ""},
		{"large", "larger than 1048576 bytes", ""},
	} {
		if tt.control != "" {
			path := tt.path
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if got, err := os.ReadFile(path); string(got) != tt.control {
				t.Fatalf("%s: got %q and %v without the server, want %q", tt.path, got, err, tt.control)
			}
		}
		args, err := encode(map[string]string{"path": tt.path})
		if err != nil {
			t.Fatal(err)
		}
		if got := call(t, Files(root), "read_file", string(args)); !strings.Contains(got, tt.want) || strings.Contains(got, "SECRET") {
			t.Errorf("%q: got %.300s, want %s", tt.path, got, tt.want)
		}
	}
}

// A client sends many requests without waiting. All of them are answered, each with its id.
func TestManyRequestsAtOnce(t *testing.T) {
	lines := []string{hello, initialized}
	const n = 1000
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"tools/call","params":{"name":"add","arguments":{"a":%d,"b":1}}}`, i, i))
	}
	all := say(t, Arithmetic(), lines...)[1:]
	if len(all) != n {
		t.Fatalf("got %d answers, want %d", len(all), n)
	}
	for i, got := range all {
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","result":{"content":[{"type":"text","text":"%d"}]}}`, i, i+1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// broken is a stream on which every operation fails.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error)  { return 0, b.err }
func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestServeEndsWithItsStreams(t *testing.T) {
	gone := errors.New("gone")
	if err := Arithmetic().Serve(strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("at the end of input: got %v, want none", err)
	}
	if err := Arithmetic().Serve(broken{gone}, io.Discard); !errors.Is(err, gone) {
		t.Errorf("input that fails: got %v, want %v", err, gone)
	}
	if err := Arithmetic().Serve(strings.NewReader(hello+"\n"), broken{gone}); !errors.Is(err, gone) {
		t.Errorf("output that fails: got %v, want %v", err, gone)
	}
}

// FuzzServe checks that for any input, each line of the server is an answer in JSON.
func FuzzServe(f *testing.F) {
	for _, name := range []string{"arithmetic", "files"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := Arithmetic().Serve(bytes.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if bad := wire.CheckLine(bytes.TrimSuffix(line, []byte("\n")), 16); bad != nil {
				t.Errorf("answered %q: %v", line, bad)
			}
		}
	})
}

// A client from another project, which also speaks newer revisions, works with both
// servers.
func TestOtherClients(t *testing.T) {
	_, root := folderWith(t, map[string]string{"a.txt": "within"})
	for name, tt := range map[string]struct {
		server *Server
		tool   string
		args   map[string]any
		want   string
		tools  []string
	}{
		"arithmetic": {Arithmetic(), "multiply", map[string]any{"a": 6, "b": 7}, "42", []string{"add", "multiply", "Calculator"}},
		"files":      {Files(root), "read_file", map[string]any{"path": "a.txt"}, "within", []string{"read_file"}},
	} {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- tt.server.Serve(in, out)
			out.Close()
		}()
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := session.InitializeResult().ProtocolVersion; got != "2024-11-05" {
			t.Errorf("%s speaks %s", name, got)
		}
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var tools []string
		for _, tool := range list.Tools {
			tools = append(tools, tool.Name)
		}
		if !slices.Equal(tools, tt.tools) {
			t.Errorf("%s has the tools %q, want %q", name, tools, tt.tools)
		}
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tt.tool, Arguments: tt.args})
		if err != nil || result.IsError || len(result.Content) != 1 {
			t.Fatalf("%s: %+v, %v", name, result, err)
		}
		if text, ok := result.Content[0].(*sdk.TextContent); !ok || text.Text != tt.want {
			t.Errorf("%s: got %+v, want %s", name, result.Content[0], tt.want)
		}
		if _, err := session.ListResources(t.Context(), nil); err != nil {
			t.Errorf("%s: resources: %v", name, err)
		}
		session.Close()
		if err := <-served; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
