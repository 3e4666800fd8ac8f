package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// bypassNames returns attempts by the name of a host and by the address to which the name
// leads.
func bypassNames() []bypass {
	const hello = "hello\n"
	list := []bypass{
		{name: "a name that no rule allows", act: asks("other.example:80", hello), says: "no rule of the profile names it"},
		{name: "a name that is denied", act: asks("denied.example:80", hello), says: "the profile denies it"},
		{name: "a denied name with a closing dot", act: asks("denied.example.:80", hello), says: "the profile denies it"},
		{name: "a denied name in capitals", act: asks("DENIED.eXaMple:80", hello), says: "the profile denies it"},
		{name: "a denied name below an allowed one", act: asks("bad.wild.example:80", hello), says: "the profile denies it"},
		{name: "an allowed name that leads to a denied address", act: asks("denied-by-address.example:8080", hello), says: "it leads to 93.184.216.36, and the profile denies it"},
		{name: "a lookalike in the xn-- form", act: asks("xn--llowed-4ve.example:80", hello), says: "no rule of the profile names it"},
		{name: "a lookalike in letters of its own", act: looksUp("аllowed.example"), says: "write other letters in the xn-- form"},
		{name: "a NUL in a name asked of the resolver", act: looksUp("denied.example\x00.allowed.example"), says: "is not a name"},
		{name: "a port that the rule does not name", mute: true, act: asks("allowed.example:22", hello), says: "on port 80 or 443, not on 22"},
		{name: "a public address by its number", act: asks(publicAddr+":80", hello), says: "no rule of the profile names it"},
		{name: "a private port beside the one allowed", mute: true, act: asks("dev.example:5432", hello), says: "on port 3000, not on 5432"},
		{name: "a private port allowed for another reason", act: asks("dev.example:80", hello), says: "on port 3000, not on 80"},
		{name: "the address that a private name has", act: asks("10.0.0.5:80", hello), says: "no rule of the profile names it"},
		{name: "a cloud's metadata by its address", act: asks(cloudAddr+":80", get(cloudAddr, "/latest/meta-data")), says: "no rule of the profile names it"},
		{
			name: "a name that leads elsewhere at the second look-up", says: "127.0.0.1 is not a public address",
			act: func(p *place) (string, error) {
				// No server listens on 81: what was found out about the name is then
				// forgotten, and looked up anew.
				_, first := p.ask("rebind.example:81", hello)
				s, err := p.ask("rebind.example:80", hello, "at 127.0.0.1:80")
				return s, errors.Join(err, ignored(first))
			},
		},
		{
			name: "a name that leads elsewhere at every other look-up", fails: `no "at 127.0.0.1:80"`,
			act: func(p *place) (string, error) {
				var err error
				for range 6 {
					var s string
					if s, err = p.ask("flutter.example:80", hello, "at 127.0.0.1:80"); err == nil {
						return s, nil
					}
				}
				return "", err
			},
		},
		{
			name: "a name with a public address and another", fails: `no "at 127.0.0.1:80"`,
			alone: "which of the two is tried is up to whoever dials",
			act:   asks("both.example:80", hello, "at 127.0.0.1:80"),
		},
	}
	for name, why := range map[string]string{
		"private.example": "10.0.0.5 is not a public address", "shared.example": "100.64.0.1 is not a public address",
		"local.example": "169.254.1.1 is not a public address", "loop.example": "127.0.0.1 is not a public address",
		"zero.example": "0.0.0.0 is not a public address", "cloud.example": "169.254.169.254 is a cloud metadata address",
		"own.example":  "8.8.4.4 is an address of the host that the sandbox runs on",
		"fake.example": "198.18.0.9 is not a public address", "mapped.example": "127.0.0.1 is not a public address",
		"nat64.example": "64:ff9b::7f00:1 is not a public address", "sixtofour.example": "2002:7f00:1::1 is not a public address",
		"teredo.example": "2001:0:7f00:1::80ff:fffe is not a public address", "isatap.example": "stands for 127.0.0.1",
		"ula.example": "fd00:ec2::254 is a cloud metadata address", "loop6.example": "::1 is not a public address",
		"doc6.example": "2001:db8::1 is not a public address",
	} {
		list = append(list, bypass{name: "an allowed name that leads to what " + name + " does", act: asks(name+":80", hello), says: why})
	}
	// Ways in which a proxy's client may write a host.
	for host, why := range map[string]string{
		"127.0.0.1": "no rule of the profile names it", "2130706433": "is a number", "0177.0.0.1": "is a number",
		"0x7f.0.0.1": "is a number", "0x7f000001": "is a number", "127.1": "is a number", "[::1]": "no rule of the profile names it",
		"[::ffff:127.0.0.1]": "no rule of the profile names it", "[64:ff9b::7f00:1]": "no rule of the profile names it",
		"[2002:7f00:1::]": "no rule of the profile names it", "allowed.example@denied.example": "user information stands before the host",
		"denied.example\x00.allowed.example": "contains the byte 0x00", "denied.example\x01": "contains the byte 0x01",
		"denied.example.": "the profile denies it", "аllowed.example": "must be escaped", cloudAddr: "no rule of the profile names it",
		"other.example": "no rule of the profile names it",
	} {
		if host == "0177.0.0.1" {
			why = "is not a name"
		}
		list = append(list, bypass{name: fmt.Sprintf("a tunnel to %q", host), act: connects(host+":80", hello), says: why})
	}
	return list
}

// ignored drops an expected error.
func ignored(error) error { return nil }

// looksUp asks the resolver for a name exactly as it is written.
func looksUp(name string) func(*place) (string, error) {
	return func(p *place) (string, error) {
		if p.Outside { // like C, which reads a name up to a NUL
			name, _, _ = strings.Cut(name, "\x00")
			return p.ask(name+":80", "hello\n")
		}
		answer, err := asksDNS(doorHost+":53", "udp", query(name, dnsmessage.TypeA, dnsmessage.ClassINET))
		if err != nil {
			return "", err
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil {
			return "", err
		}
		if len(m.Answers) == 0 {
			return "", fmt.Errorf("the resolver says %v", m.RCode)
		}
		return m.Answers[0].GoString(), nil
	}
}

// query returns a DNS question, whose name is used exactly as it is written.
func query(name string, kind dnsmessage.Type, class dnsmessage.Class) []byte {
	q := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0} // RFC 1035, 4.1.1
	for label := range strings.SplitSeq(name, ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	q = binary.BigEndian.AppendUint16(append(q, 0), uint16(kind))
	return binary.BigEndian.AppendUint16(q, uint16(class))
}

// asksDNS sends a query to a resolver.
func asksDNS(resolver, network string, q []byte) ([]byte, error) {
	c, err := net.DialTimeout(network, resolver, bypassPatience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(bypassPatience))
	if network == "tcp" {
		q = append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	}
	if _, err := c.Write(q); err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err == nil && network == "tcp" && n == 2 {
		n, err = io.ReadAtLeast(c, answer[2:], 12)
		n += 2
	}
	if err == nil && network == "tcp" && n > 2 {
		return answer[2:n], nil
	}
	return answer[:n], err
}

// tunnels sends a query and expects an answer from the other side.
func tunnels(resolver, network string, q []byte) func(*place) (string, error) {
	return func(p *place) (string, error) {
		answer, err := asksDNS(resolver, network, q)
		if err != nil {
			return "", err
		}
		if !bytes.Contains(answer, []byte(p.Token[2:])) {
			return "", fmt.Errorf("the resolver says %v", dnsmessage.RCode(answer[3]&0xf))
		}
		return "an answer of the other side's", nil
	}
}

// bypassDNS returns attempts to send data by asking for names.
func bypassDNS() []bypass {
	const door = doorHost + ":53"
	const in, txt = dnsmessage.ClassINET, dnsmessage.TypeTXT
	deep := strings.Repeat("data.", 12) + "deep.wild.example"
	long := strings.Repeat(strings.Repeat("d", 60)+".", 3) + "long.wild.example"
	rebinding := query("allowed.example", txt, in)
	rebinding[7] = 1 // the header says that the question contains an answer
	return []bypass{
		{name: "another resolver over UDP", act: tunnels("8.8.8.8:53", "udp", query("allowed.example", txt, in)), fails: "connection refused"},
		{name: "another resolver over TCP", mute: true, act: asks("8.8.8.8:53", "hello\n"), says: "no rule of the profile names it"},
		{name: "a TXT question about a name nobody allows", act: tunnels(door, "udp", query("exfil.other.example", txt, in)), says: "look-up of exfil.other.example refused", fails: "RCodeNameError"},
		{name: "the same over TCP", act: tunnels(door, "tcp", query("exfil2.other.example", txt, in)), says: "look-up of exfil2.other.example refused", fails: "RCodeNameError"},
		{name: "a TXT question below an allowed name", act: tunnels(door, "udp", query("exfil-txt.wild.example", txt, in)), fails: "RCodeSuccess"},
		{name: "a NULL question below an allowed name", act: tunnels(door, "udp", query("exfil-null.wild.example", 10, in)), fails: "RCodeSuccess"},
		{name: "an MX question below an allowed name", act: tunnels(door, "udp", query("exfil-mx.wild.example", dnsmessage.TypeMX, in)), fails: "RCodeSuccess"},
		{name: "an ANY question", act: tunnels(door, "udp", query("exfil-any.wild.example", dnsmessage.TypeALL, in)), fails: "RCodeRefused"},
		{name: "a zone transfer", act: tunnels(door, "tcp", query("wild.example", dnsmessage.TypeAXFR, in)), fails: "RCodeRefused"},
		{name: "a question of another class", act: tunnels(door, "udp", query("version.bind", txt, dnsmessage.ClassCHAOS)), fails: "RCodeRefused"},
		{name: "a name of many parts below an allowed one", act: tunnels(door, "udp", query(deep, dnsmessage.TypeA, in)), says: "at most 12 parts", fails: "RCodeNameError"},
		{name: "a long name below an allowed one", act: tunnels(door, "udp", query(long, dnsmessage.TypeA, in)), says: "at most 160 characters", fails: "RCodeNameError"},
		{name: "a query with an answer in it", act: tunnels(door, "udp", rebinding), fails: "RCodeFormatError"},
		{name: "a dynamic update", act: tunnels(door, "udp", append([]byte{0x12, 0x34, 5 << 3, 0}, query("wild.example", dnsmessage.TypeSOA, in)[4:]...)), fails: "RCodeNotImplemented"},
	}
}
