package policies

import (
	"fmt"
	"net/textproto"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Bounds of secrets.
const (
	maxSecrets       = 256
	maxSecretHeaders = 64   // headers of one profile
	maxHeaderValue   = 1024 // bytes, including the secret's name
	maxArguments     = 64
	maxArgument      = 4096 // bytes
)

// secrets reads where the operator keeps secrets. The result also has the secrets with a
// faulty definition, so that the fault is reported once and not at each use.
func (d *policyDecoder) secrets(n *yaml.Node) map[string]Secret {
	all := make(map[string]Secret)
	o, ok := d.mapping(n, "secrets", nil)
	switch {
	case !ok:
		return all
	case len(n.Content) == 0:
		d.Fault(n, "define one, for example github: {env: GITHUB_TOKEN}, or remove the key", "secrets must not be empty")
	case len(o.keys) > maxSecrets:
		d.Fault(n, "", "there are %d secrets, more than the %d that are read", len(o.keys), maxSecrets)
	}
	for _, key := range o.keys {
		if !IsName(key.Value) {
			d.Fault(key, NameShape, "%q cannot be the name of a secret", key.Value)
			continue
		}
		all[key.Value] = d.secret(key, o.get(key.Value))
	}
	return all
}

// secret reads one entry of secrets.
func (d *policyDecoder) secret(key, n *yaml.Node) Secret {
	var s Secret
	const hint = "write {env: VARIABLE}, {file: /path} or {command: [program, argument]}: a policy says where a secret is kept, never what it is"
	if n.Kind == yaml.ScalarNode {
		d.Fault(n, hint, "secret %s must be a mapping, not %s", key.Value, kind(n))
		return s
	}
	o, ok := d.mapping(n, "secret "+key.Value, secretShape)
	if !ok {
		return s
	}
	switch {
	case len(o.keys) == 0 && len(n.Content) == 0:
		d.Fault(n, hint, "secret %s has no place", key.Value)
	case len(o.keys) > 1:
		d.Fault(o.keys[1], "keep one of them", "secret %s has more than one place", key.Value)
	}
	if v := o.get("env"); v != nil {
		if text, ok := d.text(v, "env"); ok {
			if !variable().MatchString(text) {
				d.Fault(v, "name a variable of belljar's own environment, for example GITHUB_TOKEN", "%s is not a valid name of a variable", shown(text))
			}
			s.Env = text
		}
	}
	if v := o.get("file"); v != nil {
		if text, ok := d.text(v, "file"); ok {
			if !path.IsAbs(text) || path.Clean(text) != text || text == "/" || control(text) {
				d.Fault(v, "write an absolute path of the host in its shortest form", "file %s cannot hold a secret", shown(text))
			}
			s.File = text
		}
	}
	if v := o.get("command"); v != nil {
		s.Command = d.command(v)
	}
	return s
}

// command reads a program of the host and its arguments.
func (d *policyDecoder) command(n *yaml.Node) []string {
	var words []string
	if n.Kind == yaml.ScalarNode {
		d.Fault(n, "write each word apart, as [vault, read, secret/x]: no shell reads it", "command must be a list, not %s", kind(n))
		return nil
	}
	for i, entry := range d.items(n, "command", maxArguments) {
		s, ok := d.text(entry, "an entry of command")
		switch {
		case !ok:
			continue
		case strings.ContainsRune(s, 0):
			d.Fault(entry, "remove it", "an entry of command contains a NUL byte")
		case len(s) > maxArgument:
			d.Fault(entry, "", "an entry of command has %d bytes, more than %d", len(s), maxArgument)
		case i == 0 && strings.Contains(s, "/") && !path.IsAbs(s):
			d.Fault(entry, "write its absolute path, or a name that is looked for in PATH", "the program %s depends on where belljar was started", shown(s))
		}
		words = append(words, s)
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.Fault(n, "name a program that prints the secret", "command must not be empty")
	}
	return words
}

// secretHeaders reads the secrets that the door adds to requests.
func (d *netDecoder) secretHeaders(n *yaml.Node, e *Egress) {
	entries := d.items(n, "secrets of net", maxSecretHeaders)
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.Fault(n, "name at least one, or remove the key", "secrets of net must not be empty")
	}
	for _, entry := range entries {
		before := len(d.Faults)
		s, ok := d.secretHeader(entry, e)
		if !ok || len(d.Faults) > before {
			continue
		}
		twice := slices.ContainsFunc(e.Secrets, func(o SecretHeader) bool {
			return o.Header == s.Header && o.Host == s.Host && slices.Equal(o.Methods, s.Methods) && slices.Equal(o.Paths, s.Paths)
		})
		if twice {
			d.Fault(entry, "remove one: a request has room for one value", "another secret sets %s for the same requests to %s", s.Header, s.Host)
			continue
		}
		s.compiled = compileEgress(s.Host, nil, s.Methods, s.Paths)
		e.Secrets = append(e.Secrets, s)
	}
}

// secretHeader reads one entry of the secrets of net.
func (d *netDecoder) secretHeader(n *yaml.Node, e *Egress) (SecretHeader, bool) {
	var s SecretHeader
	o, ok := d.mapping(n, "a secret of net", netSecretShape)
	if !ok {
		return s, false
	}
	for _, key := range []string{"secret", "host", "header", "value"} {
		if o.get(key) == nil {
			d.Fault(n, `write {secret: github, host: api.github.com, header: Authorization, value: "Bearer ${secret:github}"}`, "the secret of net has no %s", key)
		}
	}
	if v := o.get("secret"); v != nil {
		s.Secret, _ = d.text(v, "secret")
		d.definedSecret(v, d.secrets, s.Secret)
	}
	if v := o.get("host"); v != nil {
		if text, ok := d.text(v, "host"); ok {
			s.Host = d.secretHost(v, text, e)
		}
	}
	s.Methods, s.Paths = d.requests(o)
	if slices.Contains(s.Methods, "TRACE") {
		d.Fault(o.get("methods"), "remove it", "the answer to TRACE repeats the header, so no secret is added to it")
	}
	if v := o.get("header"); v != nil {
		if text, ok := d.text(v, "header"); ok {
			s.Header = d.header(v, text)
		}
	}
	if v := o.get("value"); v != nil {
		if text, ok := d.text(v, "value"); ok {
			s.Value = text
			d.headerValue(v, text, s.Secret)
		}
	}
	return s, s.Host != ""
}

// definedSecret adds a fault if the policy defines no secret with the name.
func (d *decoder) definedSecret(n *yaml.Node, secrets map[string]Secret, name string) {
	if _, defined := secrets[name]; name == "" || defined {
		return
	}
	hint := fmt.Sprintf("define it at the top of the policy, for example secrets: {%s: {env: VARIABLE}}", Clip(name, 64))
	if near := Nearest(name, names(secrets)); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.Fault(n, hint, "secret %q does not exist", Clip(name, 64))
}

// secretHost reads the host of a secret, which allow must be able to reach.
func (d *netDecoder) secretHost(n *yaml.Node, text string, e *Egress) string {
	host, port := d.target(n, "host", text)
	if host == "" {
		return ""
	}
	m, err := compileHost(host)
	switch {
	case err != nil: // target has reported the fault
		return ""
	case m.every:
		d.Fault(n, "name the hosts that need it", "a secret cannot go to every host")
		return ""
	case port != 0:
		d.Fault(n, "leave the port out; allow says which ports there are", "the host of a secret has no port")
		return ""
	}
	ports := e.secretPorts(m)
	switch {
	case len(ports) == 0:
		d.Fault(n, "name it under allow too", "nothing in allow reaches %s, so the secret could never be used", host)
	case !e.Intercept && slices.Equal(ports, []uint16{443}):
		d.Fault(n, "write tls: intercept, which opens TLS at the door with an authority of the box's own", "%s is reached on port 443 only, where tls: pass cannot add a header", host)
	}
	return host
}

// secretPorts returns the ports on which allow reaches hosts that m names, in order.
func (e *Egress) secretPorts(m hostMatch) []uint16 {
	var ports []uint16
	for i := range e.Allow {
		if a := e.Allow[i].ready(); a.host.overlaps(m) {
			ports = append(ports, a.ports...)
		}
	}
	for _, r := range e.Private {
		if m.denies(r.Host) && r.Port != 0 {
			ports = append(ports, r.Port)
		}
	}
	ports = slices.DeleteFunc(ports, func(p uint16) bool {
		return slices.ContainsFunc(e.Deny, func(r EgressRule) bool {
			no := r.ready()
			return no.all && m.within(no.host) && coverPorts(no.ports, []uint16{p})
		})
	})
	slices.Sort(ports)
	return slices.Compact(ports)
}

// ownHeaders are the headers that say where a message goes, where it ends and how its
// connection continues (RFC 9110, 7.6.1; RFC 9112, 6). With the value of a secret in one of
// these headers, the server could read another request.
var ownHeaders = []string{
	"Host", "Content-Length", "Content-Encoding", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Expect", "Range",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Http2-Settings", "Date", "Via", "Forwarded",
}

// header reads the name of a header that carries a secret.
func (d *netDecoder) header(n *yaml.Node, s string) string {
	name := textproto.CanonicalMIMEHeaderKey(s)
	switch {
	case !token(s):
		d.Fault(n, "write a name such as Authorization or X-Api-Key", "%s is not a valid name of a header", shown(s))
	case slices.Contains(ownHeaders, name):
		d.Fault(n, "use one that the server reads its credentials from, for example Authorization", "the header %s belongs to the connection and carries no secret", name)
	}
	return name
}

var reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{secret:([^}]*)\}`) })

// headerValue checks the value of a header, which must contain its secret once.
func (d *netDecoder) headerValue(n *yaml.Node, s, secret string) {
	hint := fmt.Sprintf(`write "Bearer ${secret:%s}"`, Clip(secret, 64))
	found := reference().FindAllStringSubmatch(s, -1)
	switch {
	case len(s) > maxHeaderValue:
		d.Fault(n, "", "value has %d bytes, more than %d", len(s), maxHeaderValue)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) || strings.TrimSpace(s) != s:
		d.Fault(n, "use letters, digits and marks of ASCII, and blanks between them only", "value is not a valid value of a header")
	case len(found) == 0:
		d.Fault(n, hint+"; a policy must not contain the secret itself", "value does not say where the secret goes")
	case len(found) > 1 || strings.Count(s, "${") > 1:
		d.Fault(n, hint, "value contains more than one ${...}")
	case secret != "" && found[0][1] != secret:
		d.Fault(n, hint, "value contains ${secret:%s}, but the secret here is %s", Clip(found[0][1], 64), Clip(secret, 64))
	}
}
