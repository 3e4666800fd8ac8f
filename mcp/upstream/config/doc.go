// Package config reads the unchanged lists of MCP servers that people have for other
// clients into one shape. It knows nothing of boxes and policies. Its callers make the
// servers of package upstream from the entries that it returns.
//
// The steps from a file to an entry:
//
//	data, err := ReadFile(dir, name)       // an agent may have replaced the file
//	entries, faults := Read(name, data)    // any language, any shape
//	all := Merge(layers...)                // the operator's files, then the workspace's
//	entry, faults := Expand(all[i], look)  // ${VAR} and the like, just before a start
//	more, faults := ReadEnvFile(...)       // the entry's EnvFile, if it names one
//
// The content of a file decides what the file is; its name does not. Its language is JSON
// (with comments where the client allows them), TOML or YAML; its shape is one of:
//
//	[{"name": ..., "command": ...}]           an array; also below each of the keys that follow
//	{"NAME": {"command": ...}}                an object of servers
//	{"mcpServers": {...}}                     Claude Desktop and Code, Cursor, Gemini CLI, Copilot, Windsurf
//	{"servers": {...}, "inputs": [...]}       VS Code; in its settings below "mcp"
//	{"context_servers": {...}}                Zed
//	[mcp_servers.NAME]                        Codex
//
// Four rules hold for all of them.
//
// Nothing is loaded in part. A file with an error has no entries, unless the error is in one
// entry alone (Fault.Entry). Then the other entries are loaded, since one bad server must not
// disable the rest.
//
// Nothing is dropped without a report. A key without effect gives a warning, and is kept byte
// for byte (Entry.Extra).
//
// Values do not get into logs. Such files are full of tokens, so a Fault names keys and
// places and never shows a value or a line, and a Text prints the names of what it refers to.
// Secrets (${secret:NAME}, and inputs that are passwords) stay references even after Expand;
// only Text.Reveal returns a value.
//
// Keys can only narrow. The approvals that a file sets have no effect, and its sandbox rules
// and lists of tools only reduce what the policy gives.
//
// The files, each calling only those below it:
//
//	file.go                      gets the bytes of a file that agents may have replaced
//	envfile.go                   the variables of an EnvFile
//	draft.go                     an entry as it is written, without the secrets in it
//	add.go                       writes entries into a file
//	read.go                      from the bytes of a file to its entries; finds its language
//	merge.go                     files on top of each other
//	shape.go                     where in a file the servers are
//	server.go                    one server: what each key means
//	expand.go                    fills in what texts refer to; what a person should see of it
//	check.go                     names of variables, headers and URLs
//	text.go                      texts that refer to something, read and shown
//	json.go, toml.go, yaml.go    the languages
//	node.go                      what a value is in all of them
//	fault.go                     what is wrong, and how it is shown
//	entry.go                     what an entry is made of
package config
