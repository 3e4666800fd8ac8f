package policies

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// target reads the host of a rule, and its port, or 0 if it names none.
func (d *netDecoder) target(n *yaml.Node, key, s string) (string, uint16) {
	host, port, err := splitTarget(s)
	var m hostMatch
	if err == nil {
		m, err = compileHost(host)
	}
	if err != nil {
		_, rangeErr := netip.ParsePrefix(s)
		hint := ""
		switch rest, isURL := cutScheme(s); {
		case rangeErr == nil:
			hint = "ranges cannot be named: name the hosts; what a name resolves to is checked on each connection"
		case isURL:
			name, _, _ := strings.Cut(rest, "/")
			hint = fmt.Sprintf("name the host alone: %q; for paths write {host: %s, paths: [\"/v1/**\"]}", name, name)
		case strings.Contains(s, "/"):
			name, path, _ := strings.Cut(s, "/")
			hint = fmt.Sprintf("write {host: %q, paths: [\"/%s\"]}", name, path)
		case strings.HasPrefix(s, "."):
			hint = fmt.Sprintf("write %q for all names below it", "*"+s)
		}
		d.Fault(n, Clip(hint, maxShown*2), "%s %s: %v", key, shown(s), err)
		return "", 0
	}
	return m.String(), port
}

// cutScheme returns the part of a URL after its scheme.
func cutScheme(s string) (string, bool) {
	_, rest, ok := strings.Cut(s, "://")
	return rest, ok
}

// splitTarget splits "host", "host:port", "[address]:port" or an address without brackets,
// which may contain colons. port is 0 if s names none.
func splitTarget(s string) (host string, port uint16, err error) {
	if strings.Contains(s, "/") {
		return "", 0, errors.New("contains a slash, which no host does")
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return s, 0, nil
	}
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		if port, err = readPort(s[i+1:]); err != nil {
			return "", 0, err
		}
		host = s[:i]
	}
	return host, port, nil
}

// readPort reads a port as rules write it.
func readPort(s string) (uint16, error) {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != s {
		return 0, fmt.Errorf("%q is not a valid port; write a number from 1 to 65535", Clip(s, 40))
	}
	return uint16(port), nil
}

// ports reads one port or a list of them.
func (d *netDecoder) ports(n *yaml.Node, what string) []uint16 {
	entries := []*yaml.Node{n}
	if n.Kind != yaml.ScalarNode {
		entries = d.items(n, what, maxPorts)
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.Fault(n, "name at least one, or remove the key", "%s must not be empty", what)
		}
	}
	var ports []uint16
	for _, entry := range entries {
		port, err := readPort(entry.Value)
		switch {
		case entry.Kind == yaml.AliasNode:
		case entry.Kind != yaml.ScalarNode || entry.ShortTag() == "!!null":
			d.Fault(entry, "write a number from 1 to 65535", "an entry of %s must be a port, not %s", what, kind(entry))
		case err != nil:
			d.Fault(entry, "", "%s: %v", what, err)
		case slices.Contains(ports, port):
			d.Fault(entry, "remove one", "%s names %d twice", what, port)
		default:
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// requests reads the methods and paths of a rule.
func (d *netDecoder) requests(o object) (methods, paths []string) {
	if v := o.get("methods"); v != nil {
		d.texts(v, "methods", func(n *yaml.Node, s string) {
			upper := strings.ToUpper(s)
			switch {
			case !token(s):
				d.Fault(n, "write the method of a request, for example GET", "%s is not a method", shown(s))
			case upper != s:
				d.Fault(n, fmt.Sprintf("did you mean %q?", upper), "the method %s is not in capitals", shown(s))
			case s == "CONNECT":
				d.Fault(n, "name the host that is connected to", "CONNECT opens a connection and is not a request on one")
			case slices.Contains(methods, s):
				d.Fault(n, "remove one", "methods name %s twice", s)
			case len(methods) == maxMethods:
				d.Fault(n, "leave methods out for any", "methods has more than %d entries", maxMethods)
			default:
				methods = append(methods, s)
			}
		})
	}
	if v := o.get("paths"); v != nil {
		d.texts(v, "paths", func(n *yaml.Node, s string) {
			_, _, err := compileRequestPath(s)
			switch {
			case err != nil:
				d.Fault(n, `write it as "/v1/**"; ** is any number of segments`, "path %s: %v", shown(s), err)
			case slices.Contains(paths, s):
				d.Fault(n, "remove one", "paths name %s twice", Clip(s, maxShown))
			case len(paths) == maxPaths:
				d.Fault(n, "use patterns: * is any characters of one segment, ** any number of segments", "paths has more than %d entries", maxPaths)
			default:
				paths = append(paths, s)
			}
		})
	}
	slices.Sort(methods)
	slices.Sort(paths)
	return methods, paths
}

// token reports whether s is a token of HTTP (RFC 9110, 5.6.2), and not longer than servers
// accept.
func token(s string) bool {
	const most = 64
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
