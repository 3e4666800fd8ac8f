package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// withoutEffect contains keys that some client knows and that have no effect here, with the
// reason. A key with an empty reason only describes the server, and causes no warning.
var withoutEffect = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"alwaysAllow":                 approvals,
		"autoApprove":                 approvals,
		"autoAllow":                   approvals,
		"default_tools_approval_mode": approvals,
		"trust":                       approvals,

		"timeout":             timeouts,
		"initTimeout":         timeouts,
		"startup_timeout_sec": timeouts,
		"startup_timeout_ms":  timeouts,
		"tool_timeout_sec":    timeouts,

		"auth":             logins,
		"authProviderType": logins,
		"headersHelper":    logins,
		"oauth":            logins,
		"oauth_resource":   logins,
		"scopes":           logins,

		"dev":                          "belljar neither watches the server's files nor debugs it",
		"experimental_environment":     "the server always runs in a box",
		"required":                     "a server that fails does not keep the others from working",
		"supports_parallel_tool_calls": "calls always run in parallel",

		"description": "", "display_name": "", "displayName": "", "extensionName": "", "gallery": "", "icon": "", "id": "",
		"registryUrl": "", "source": "", "title": "", "version": "",
	}
})

const (
	approvals = "the policy decides about approvals, and a file approves nothing"
	timeouts  = "the policy sets the timeouts"
	logins    = "log in with `belljar upstream login`, or write a token in headers with ${secret:NAME}"
)

// server reads one entry. It returns false if the entry has an error.
func (r *report) server(name string, at place, n *node) (Entry, bool) {
	r.entry, r.worse = cmp.Or(name, fmt.Sprintf("of line %d", at.line)), false
	defer func() { r.entry = "" }()
	s := &server{report: r, at: at, entry: Entry{Name: name, Enabled: true, Tools: Tools{All: true}, Source: Source{File: r.file, Line: at.line, Col: at.col}}}
	if problem := badName(name); problem != "" {
		r.wrong(at, "", "%s", problem)
	}
	if n.sort != object {
		r.wrong(n.at, `write {"command": "PROGRAM", "args": [...]} or {"url": "https://..."}`, "a server must be an object, not %s", n.sort)
		return Entry{}, false
	}
	if len(n.fields) > maxKeys {
		r.wrong(n.at, "", "a server has %d keys, more than the %d that are read", len(n.fields), maxKeys)
		return Entry{}, false
	}
	for _, f := range n.fields {
		s.key(f)
	}
	s.finish()
	return s.entry, !r.worse
}

func badName(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "a server needs a name"
	case len(name) > maxName:
		return fmt.Sprintf("the name has %d bytes, more than %d", len(name), maxName)
	case strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }):
		return "the name contains control characters"
	}
	return ""
}

// server is an entry that is being read.
type server struct {
	*report
	at     place
	entry  Entry
	stated Kind   // kind in the key type
	from   string // key that contained the URL
	prefix bool   // the entry has a prefix
}

// key reads one key.
func (s *server) key(f field) {
	e, v := &s.entry, f.value
	switch f.key {
	case "command":
		s.command(v)
	case "args":
		s.args(v)
	case "env", "environment":
		s.env(v, f.key)
	case "env_vars":
		s.forwarded(v)
	case "envFile", "env_file":
		e.EnvFile = s.text(v, f.key)
	case "cwd", "working_directory":
		e.Cwd = s.text(v, f.key)
	case "url", "serverUrl", "httpUrl":
		s.url(f)
	case "headers", "http_headers":
		s.headers(v, f.key)
	case "env_http_headers":
		s.headersOfVariables(v)
	case "bearer_token_env_var":
		if name, ok := s.plain(v, f.key); ok {
			s.header(e, f.at, "Authorization", s.template(&node{text: "Bearer ${" + name + "}", at: v.at}, f.key))
		}
	case "bearer_token":
		s.wrong(f.at, "use bearer_token_env_var, or a header with ${secret:NAME}", "the key bearer_token contains a token, which must not be in a file")
	case "type", "transport":
		s.kind(f)
	case "enabled":
		e.Enabled = s.truth(v, f.key) && e.Enabled
	case "disabled":
		e.Enabled = !s.truth(v, f.key) && e.Enabled
	case "tools_prefix":
		s.givenPrefix(v)
	case "includeTools", "enabled_tools", "enabledTools":
		s.allow(v, f.key)
	case "excludeTools", "disabled_tools", "disabledTools":
		e.Tools.Deny = append(e.Tools.Deny, s.names(v, f.key)...)
	case "tools":
		if v.sort == object { // Codex: how calls of each tool are approved
			s.extra(f, approvals, true)
		} else {
			s.allow(v, f.key)
		}
	case "sandboxEnabled":
		s.sandbox().Enabled = s.truth(v, f.key)
	case "sandbox":
		s.sandboxRules(v)
	case "name": // the name of a server in an array; in other files a text for people
	default:
		reason, known := withoutEffect()[f.key]
		s.extra(f, reason, known)
	}
}

// extra keeps a key without effect.
func (s *server) extra(f field, reason string, known bool) {
	switch {
	case !known:
		s.warn(f.at, "", "the key %s is not known and has no effect", quoted(f.key))
	case reason != "":
		s.warn(f.at, "", "the key %s has no effect: %s", quoted(f.key), reason)
	}
	s.entry.Extra = append(s.entry.Extra, Extra{Key: f.key, Text: s.raw(f.value), Known: known})
}

// command reads a program. The value may also be an object, which is Zed's older form.
func (s *server) command(v *node) {
	switch v.sort {
	case object:
		for _, f := range v.fields {
			switch f.key {
			case "path":
				s.entry.Command = s.text(f.value, "command")
			case "args":
				s.args(f.value)
			case "env":
				s.env(f.value, f.key)
			default:
				s.extra(f, "", false)
			}
		}
	case list:
		s.wrong(v.at, `write the program as "command" and the rest as "args"`, "command must be a text, not a list")
	case null, boolean, number, text:
		s.entry.Command = s.text(v, "command")
		if program, rest, ok := strings.Cut(v.text, " "); ok && v.sort == text && !strings.ContainsAny(program, `/\`) && rest != "" {
			s.warn(v.at, `write the program as "command" and the rest as "args"`, "command contains a space, and is taken as the name of one program")
		}
	}
}

func (s *server) args(v *node) {
	if v.sort == null {
		return
	}
	if v.sort != list {
		s.wrong(v.at, `write ["one", "two"]`, "args must be a list of texts, not %s", v.sort)
		return
	}
	if len(v.items) > maxArgs {
		s.wrong(v.at, "", "args has %d items, more than the %d that are read", len(v.items), maxArgs)
		return
	}
	for i, item := range v.items {
		s.entry.Args = append(s.entry.Args, s.scalar(item, fmt.Sprintf("argument %d", i+1)))
	}
}

func (s *server) env(v *node, what string) {
	for _, f := range s.object(v, what) {
		s.variable(f.at, f.key, s.scalar(f.value, "the variable "+quoted(f.key)))
	}
}

// forwarded reads Codex's list of environment variables that the server gets.
func (s *server) forwarded(v *node) {
	if v.sort != list {
		s.wrong(v.at, "", "env_vars must be a list of names, not %s", v.sort)
		return
	}
	for _, item := range v.items {
		if named := item.get("name"); named != nil {
			item = named
		}
		if name, ok := s.plain(item, "env_vars"); ok {
			s.variable(item.at, name, s.template(&node{text: "${" + name + "}", at: item.at}, "env_vars"))
		}
	}
}

func (s *server) variable(at place, name string, value Text) {
	s.checkVariableName(at, name)
	switch {
	case len(s.entry.Env) >= maxKeys:
		s.wrong(at, "", "there are more than the %d variables that are read", maxKeys)
	case slices.ContainsFunc(s.entry.Env, func(have Variable) bool { return have.Name == name }):
		s.wrong(at, "keep one of them", "the variable %s is set twice", quoted(name))
	default:
		s.entry.Env = append(s.entry.Env, Variable{name, value})
	}
}

func (s *server) url(f field) {
	if s.from != "" {
		s.wrong(f.at, "keep one of them", "%s and %s both name a URL", s.from, f.key)
		return
	}
	s.from = f.key
	s.entry.URL = s.text(f.value, f.key)
}

func (s *server) headers(v *node, what string) {
	for _, f := range s.object(v, what) {
		s.header(&s.entry, f.at, f.key, s.scalar(f.value, "the header "+quoted(f.key)))
	}
}

// headersOfVariables reads Codex's headers whose values are names of variables.
func (s *server) headersOfVariables(v *node) {
	for _, f := range s.object(v, "env_http_headers") {
		if name, ok := s.plain(f.value, "env_http_headers"); ok {
			s.header(&s.entry, f.at, f.key, s.template(&node{text: "${" + name + "}", at: f.value.at}, "env_http_headers"))
		}
	}
}

func (s *server) kind(f field) {
	name, ok := s.plain(f.value, f.key)
	if !ok {
		return
	}
	kinds := map[string]Kind{
		"stdio": Stdio, "local": Stdio, "http": HTTP, "streamable-http": HTTP, "streamable_http": HTTP, "streamableHttp": HTTP, "remote": HTTP, "sse": SSE,
	}
	s.stated, ok = kinds[name]
	if !ok {
		s.wrong(f.value.at, "write stdio, http or sse", "%s is not a kind of server that belljar supports", quoted(name))
	}
}

func (s *server) allow(v *node, what string) {
	names := s.names(v, what)
	if slices.Contains(names, "*") { // Copilot's form for all tools
		return
	}
	s.entry.Tools.All = false
	s.entry.Tools.Allow = append(s.entry.Tools.Allow, names...)
}

// givenPrefix reads the prefix of the tools' names.
func (s *server) givenPrefix(v *node) {
	prefix, ok := s.plain(v, "tools_prefix")
	if !ok {
		return
	}
	clean := safe(prefix)
	switch {
	case len(prefix) > maxPrefix:
		s.wrong(v.at, "", "tools_prefix has %d characters, more than %d", len(prefix), maxPrefix)
	case strings.Trim(clean, "_-") == "":
		s.wrong(v.at, "use letters and digits, or leave the key out: then the prefix is the name of the server", "tools_prefix is empty")
	case strings.EqualFold(clean, "mcp"):
		s.wrong(v.at, "use another word: names of all tools begin with mcp", "tools_prefix is mcp")
	case clean != prefix:
		s.warn(v.at, "", "tools_prefix contains characters other than letters, digits, _ and -, and becomes %s", quoted(clean))
	}
	s.entry.Prefix, s.prefix = clean, true
}

// safe returns a text with _ in place of each character that names of tools cannot have.
func safe(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, s)
}

func (s *server) sandbox() *Sandbox {
	if s.entry.Sandbox == nil {
		s.entry.Sandbox = &Sandbox{}
	}
	return s.entry.Sandbox
}

func (s *server) sandboxRules(v *node) {
	is := s.sandbox()
	for _, f := range s.object(v, "sandbox") {
		if f.key != "filesystem" && f.key != "network" {
			s.extra(f, "", false)
			continue
		}
		for _, rule := range s.object(f.value, f.key) {
			switch f.key + "." + rule.key {
			case "network.allowedDomains":
				is.AllowedDomains = s.names(rule.value, rule.key)
			case "network.deniedDomains":
				is.DeniedDomains = s.names(rule.value, rule.key)
			case "filesystem.allowWrite":
				is.AllowWrite = s.paths(rule.value, rule.key)
			case "filesystem.denyRead":
				is.DenyRead = s.paths(rule.value, rule.key)
			case "filesystem.denyWrite":
				is.DenyWrite = s.paths(rule.value, rule.key)
			default:
				s.extra(rule, "", false)
			}
		}
	}
}

// finish decides what kind of server the keys describe together, and checks that they fit.
func (s *server) finish() {
	e := &s.entry
	if !s.prefix {
		e.Prefix = safe(e.Name)
		if strings.EqualFold(e.Prefix, "mcp") { // names of tools would begin with mcp twice
			e.Prefix = "mcp-server"
			s.warn(s.at, "set tools_prefix", "the names of its tools begin with mcp-server, since the names of all tools begin with mcp")
		}
		e.Prefix = e.Prefix[:min(len(e.Prefix), maxPrefix)]
	}
	switch command, remote := !e.Command.Empty(), !e.URL.Empty(); {
	case command && remote:
		s.wrong(s.at, "keep one of them", "both a command and a URL are given")
	case command:
		e.Kind = Stdio
		if len(e.Headers) > 0 {
			s.warn(s.at, "use env", "headers have no effect on a command")
		}
	case remote:
		e.Kind = s.remoteKind()
		if len(e.Args)+len(e.Env) > 0 {
			s.warn(s.at, "use headers", "args and env have no effect on a URL")
		}
		s.checkURL(e.URL, len(e.Headers) > 0)
		for _, v := range e.Headers {
			s.checkHeaderValue(v)
		}
	case e.Enabled && !s.worse:
		s.wrong(s.at, `write "command" or "url"`, "neither a command nor a URL is given")
	}
	if s.stated != "" && e.Kind != "" && (s.stated == Stdio) != (e.Kind == Stdio) {
		given := "a URL"
		if e.Kind == Stdio {
			given = "a command"
		}
		s.wrong(s.at, "", "the type is %s, but %s is given", s.stated, given)
	}
}

// remoteKind returns the kind in the key type. If the entry has no such key, the URL's path
// decides, as in other clients.
func (s *server) remoteKind() Kind {
	if s.stated != "" && s.stated != Stdio {
		return s.stated
	}
	if u, err := url.Parse(s.entry.URL.String()); err == nil && s.from != "httpUrl" && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		return SSE
	}
	return HTTP
}

// object returns the fields of an object.
func (s *server) object(v *node, what string) []field {
	if v.sort == null {
		return nil
	}
	if v.sort != object {
		s.wrong(v.at, `write {"NAME": "VALUE"}`, "%s must be an object, not %s", what, v.sort)
		return nil
	}
	if len(v.fields) > maxKeys {
		s.wrong(v.at, "", "%s has %d keys, more than the %d that are read", what, len(v.fields), maxKeys)
		return nil
	}
	return v.fields
}

// text reads a text that may contain references.
func (s *server) text(v *node, what string) Text {
	if v.sort == null {
		return Text{}
	}
	if v.sort != text {
		hint := ""
		if v.sort == number || v.sort == boolean {
			hint = "put it in quotes"
		}
		s.wrong(v.at, hint, "%s must be a text, not %s", what, v.sort)
		return Text{}
	}
	return s.template(v, what)
}

// scalar is like text, and also accepts numbers and booleans as they are written: people
// write "PORT": 3000, and other clients accept it.
func (s *server) scalar(v *node, what string) Text {
	if v.sort == number || v.sort == boolean {
		return s.template(v, what)
	}
	if v.sort == null {
		s.wrong(v.at, `write "" for an empty text`, "%s must be a text, not null", what)
		return Text{}
	}
	return s.text(v, what)
}

// plain reads a text in which references are not expanded.
func (s *server) plain(v *node, what string) (string, bool) {
	if v.sort != text {
		s.wrong(v.at, "put it in quotes", "%s must be a text, not %s", what, v.sort)
		return "", false
	}
	return v.text, true
}

func (s *server) truth(v *node, what string) bool {
	if v.sort != boolean {
		s.wrong(v.at, "", "%s must be true or false, not %s", what, v.sort)
	}
	return v.text == "true"
}

// names reads a list of texts in which references are not expanded.
func (s *server) names(v *node, what string) []string {
	names, ok := v.texts()
	switch {
	case !ok:
		s.wrong(v.at, `write ["one", "two"]`, "%s must be a list of texts", what)
	case len(names) > maxKeys:
		s.wrong(v.at, "", "%s has %d items, more than the %d that are read", what, len(names), maxKeys)
		return nil
	}
	return names
}

func (s *server) paths(v *node, what string) (all []Text) {
	if s.names(v, what) == nil {
		return nil
	}
	for _, item := range v.items {
		all = append(all, s.template(item, what))
	}
	return all
}
