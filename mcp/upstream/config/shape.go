package config

import (
	"slices"
)

// heads are the keys below which files contain their servers: "mcpServers" in Claude
// Desktop, Claude Code, Cursor, Gemini CLI, Copilot, Windsurf and others; "servers" in VS
// Code; "context_servers" in Zed; "mcp_servers" in Codex.
var heads = []string{"mcpServers", "servers", "context_servers", "mcp_servers"}

// inline are the keys that make an object a server, and not a collection of servers.
var inline = []string{"command", "url", "serverUrl", "httpUrl"}

// found contains the servers of a file, and the other keys that concern them.
type found struct {
	servers *node
	inputs  *node
	plain   bool // the client that defined this shape reads it as plain JSON
	narrow  *node
}

// shape finds the servers in the top value of a file.
func (r *report) shape(top *node) (found, bool) {
	switch top.sort {
	case list:
		return found{servers: top, plain: true}, true
	case object:
	case null, boolean, number, text:
		r.wrong(top.at, emptyHint, "the file contains %s, not an object or a list of servers", top.sort)
		return found{}, false
	}
	var is found
	var head string
	var beside []field
	for _, f := range top.fields {
		settings := f.key == "mcp" && f.value.sort == object // a key of VS Code's settings
		switch {
		case slices.Contains(heads, f.key) && collection(f.value), settings && collection(f.value.get("servers")):
			if head != "" {
				r.wrong(f.at, "keep one of them, or make two files", "the file has servers below %s and below %s", quoted(head), quoted(f.key))
				return found{}, false
			}
			head, is.servers = f.key, f.value
			if settings {
				is.servers, is.inputs = f.value.get("servers"), f.value.get("inputs")
			}
		case f.key == "inputs" && f.value.sort == list:
			is.inputs = f.value
		case settings: // the key mcp of Gemini CLI's settings, which allows or excludes servers by name
			is.narrow = f.value
		default:
			beside = append(beside, f)
		}
	}
	if head == "" {
		return r.bare(top)
	}
	if len(beside) > 0 {
		keys := make([]string, 0, len(beside))
		for _, f := range beside {
			keys = append(keys, f.key)
		}
		r.warn(beside[0].at, "", "in addition to %s, the file contains settings of its client, which are not read: %s", quoted(head), listed(keys))
	}
	return is, true
}

// bare reads a file that is an object of servers, without one of the heads.
func (r *report) bare(top *node) (found, bool) {
	for _, f := range top.fields {
		if !entry(f.value) {
			r.wrong(f.at, "put the servers below one of the keys "+listed(heads), "the file has no servers: %s is not a server, since it has neither a command nor a url", quoted(f.key))
			return found{}, false
		}
	}
	return found{servers: top, plain: true}, true
}

// entry reports whether a value is a server.
func entry(n *node) bool {
	return n.sort == object && slices.ContainsFunc(inline, func(key string) bool { return n.get(key) != nil })
}

// collection reports whether a value is a collection of servers. In an object of servers, a
// server named "servers" is not one.
func collection(n *node) bool {
	if n == nil {
		return false
	}
	text := func(key string) bool { v := n.get(key); return v != nil && v.sort == text }
	return n.sort == list || n.sort == null || n.sort == object && !slices.ContainsFunc(inline, text)
}

// entries reads the servers of a collection.
func (r *report) entries(n *node) (all []Entry) {
	if n.sort == null {
		return nil
	}
	if count := len(n.items) + len(n.fields); count > maxEntries {
		r.wrong(n.at, "", "the file has %d servers, more than the %d that are read", count, maxEntries)
		return nil
	}
	seen := map[string]bool{}
	add := func(name string, at place, v *node) {
		if seen[name] && name != "" {
			r.wrong(at, "give each server a name of its own", "the server %s is repeated here", quoted(name))
			return
		}
		seen[name] = true
		if e, ok := r.server(name, at, v); ok {
			all = append(all, e)
		}
	}
	for _, f := range n.fields {
		add(f.key, f.at, f.value)
	}
	for _, item := range n.items {
		name := ""
		if is := item.get("name"); is != nil && is.sort == text {
			name = is.text
		}
		add(name, item.at, item)
	}
	return all
}

// questions reads VS Code's inputs, and gives each entry the inputs that it refers to.
func (r *report) questions(n *node, entries []Entry) {
	if n == nil || n.sort != list {
		return
	}
	if len(n.items) > maxKeys {
		r.wrong(n.at, "", "inputs has %d items, more than the %d that are read", len(n.items), maxKeys)
		return
	}
	var all []Input
	for _, item := range n.items {
		id := item.get("id")
		if id == nil || id.sort != text || id.text == "" {
			r.wrong(item.at, "", "an input needs an id")
			continue
		}
		in := Input{ID: id.text}
		if is := item.get("description"); is != nil && is.sort == text {
			in.Description = is.text
		}
		if is := item.get("default"); is != nil && is.sort == text {
			in.Default, in.HasDefault = is.text, true
		}
		if is := item.get("password"); is != nil {
			in.Password = is.text == "true"
		}
		if is := item.get("type"); is != nil && is.text == "command" {
			r.warn(is.at, "", "the input %s is answered by a command of VS Code, which does not exist here; the input needs an answer", quoted(in.ID))
		}
		if slices.ContainsFunc(all, func(have Input) bool { return have.ID == in.ID }) {
			r.wrong(id.at, "give each input an id of its own", "the input %s is repeated here", quoted(in.ID))
			continue
		}
		all = append(all, in)
	}
	for i := range entries {
		used := References(entries[i])
		for _, in := range all {
			if slices.Contains(used, "${input:"+in.ID+"}") {
				entries[i].Inputs = append(entries[i].Inputs, in)
			}
		}
	}
}

// narrowed disables the servers that Gemini CLI's settings exclude.
func narrowed(n *node, entries []Entry) {
	allowed, listed := n.get("allowed").texts()
	excluded, _ := n.get("excluded").texts()
	for i := range entries {
		e := &entries[i]
		e.Enabled = e.Enabled && (!listed || slices.Contains(allowed, e.Name)) && !slices.Contains(excluded, e.Name)
	}
}
