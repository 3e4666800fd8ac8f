package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"belljar.dev/policies"
)

// The bounds of the DNS server. It forwards nothing, so no query of a box reaches another
// server: the host resolves a name when a connection to it is made.
const (
	maxQuery     = 4096 // size of a query in bytes
	dnsTTL       = 10   // seconds; an address is judged anew when it is dialled
	dnsRate      = 2000 // queries in a second; further queries wait
	dnsStreams   = 16   // TCP connections at the same time
	dnsPerStream = 64   // queries on one TCP connection
	dnsIdle      = 5 * time.Second
	dnsFailures  = 100 // reads in a row that fail before the server gives up
	ednsSize     = 1232
)

// ruleName is the rule in the record of a name that cannot be a host name.
const ruleName = "names"

// ServeDNS answers the queries of a box over UDP until reading fails or the door
// is closed; the latter is not an error. It closes pc.
//
// A name that some rule allows gets an address of its own in 198.18.0.0/15; no
// other name gets one. See answer.
func (d *Door) ServeDNS(pc net.PacketConn) error {
	stop := make(chan struct{})
	drop, err := d.hold(func() { close(stop); pc.Close() })
	if err != nil {
		pc.Close()
		return err
	}
	defer drop()
	defer pc.Close()
	// One buffer is enough, and an idle box keeps it. A datagram longer than the size that
	// we announce is cut, and is then malformed.
	query := make([]byte, ednsSize)
	answers := nameServer{d}
	for failures := 0; answers.pace(stop); {
		n, from, err := pc.ReadFrom(query)
		switch {
		case err == nil:
			failures = 0
		case d.isClosed() || errors.Is(err, net.ErrClosed):
			return nil
		default: // for example an ICMP error that a box provoked
			if failures++; failures >= dnsFailures {
				return fmt.Errorf("read DNS queries: %w", err)
			}
			continue
		}
		if answer := answers.answer(nil, query[:n]); answer != nil {
			_, _ = pc.WriteTo(answer, from) // fails only if the client has left
		}
	}
	return nil
}

// ServeDNSStream is ServeDNS over TCP (RFC 7766). It closes l.
func (d *Door) ServeDNSStream(l net.Listener) error {
	return d.accept(l, dnsStreams, nameServer{d}.stream)
}

// nameServer is the DNS server of a door: its answers say what the door does with a name.
type nameServer struct{ door *Door }

func (s nameServer) stream(ctx context.Context, c net.Conn, decided func()) {
	decided() // immediately: the client itself waits for the answer
	query, reply := make([]byte, maxQuery), make([]byte, 2, maxQuery)
	for range dnsPerStream {
		if !s.pace(ctx.Done()) || c.SetDeadline(time.Now().Add(dnsIdle)) != nil {
			return
		}
		if _, err := io.ReadFull(c, query[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(query))
		if n > maxQuery {
			return
		}
		if _, err := io.ReadFull(c, query[:n]); err != nil {
			return
		}
		answer := s.answer(reply, query[:n])
		if answer == nil {
			return
		}
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// pace waits until the box may send another query, and reports whether it may. It may not
// after stop was closed.
func (s nameServer) pace(stop <-chan struct{}) bool {
	for {
		wait := s.door.queries.wait(time.Now(), dnsRate, 2*dnsRate)
		if wait == 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return false
		}
	}
}

// answer appends the answer to buf, or returns nil if the message is not a query. A query
// that cannot be parsed gets FORMERR; an unusual one gets NOTIMP or REFUSED.
//
// A name that is not allowed gets NXDOMAIN, after which clients give up immediately.
// REFUSED would be the truth, but getaddrinfo(3) of glibc reports it as a "temporary
// failure", after which programs try again, and that of musl waits for another answer until
// it times out. A client that sends EDNS gets the reason (RFC 8914).
func (s nameServer) answer(buf, query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil || head.Response {
		return nil
	}
	r := reply{head: head}
	if head.OpCode != 0 {
		return r.pack(buf, dnsmessage.RCodeNotImplemented)
	}
	// RFC 9619: a query has one question. It must contain no answers, and in addition to
	// EDNS at most one more record, for example a signature.
	count := func(i int) uint16 { return binary.BigEndian.Uint16(query[i:]) }
	if count(4) != 1 || count(6) != 0 || count(8) != 0 || count(10) > 2 {
		return r.pack(buf, dnsmessage.RCodeFormatError)
	}
	q, err := p.Question()
	if err != nil {
		return r.pack(buf, dnsmessage.RCodeFormatError)
	}
	r.question = &q
	if !r.readEDNS(&p) {
		return r.pack(buf, dnsmessage.RCodeFormatError)
	}
	if r.version != 0 {
		return r.pack(buf, rcodeBadVersion)
	}
	return r.pack(buf, s.decide(&r, q))
}

// rcodeBadVersion is BADVERS (RFC 6891, 9): its upper bits are in the OPT record.
const rcodeBadVersion dnsmessage.RCode = 16

// blockedOption is the extended error "Blocked" (RFC 8914, 2 and 4.16).
var blockedOption = dnsmessage.Option{Code: 15, Data: []byte{0, 15}}

// reply is an answer that is being made.
type reply struct {
	head     dnsmessage.Header
	question *dnsmessage.Question
	edns     bool
	version  byte
	blocked  bool       // whether the policy refused the name
	addr     netip.Addr // address of an A or AAAA record; invalid if there is no such record
	name     string     // name of a PTR record; empty if there is no such record
}

// readEDNS reads the records after the question, and reports whether they are valid.
func (r *reply) readEDNS(p *dnsmessage.Parser) bool {
	if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return true
		}
		if err != nil || p.SkipAdditional() != nil {
			return false
		}
		if h.Type != dnsmessage.TypeOPT {
			continue
		}
		if r.edns || h.Name.String() != "." { // RFC 6891, 6.1.1
			return false
		}
		r.edns, r.version = true, byte(h.TTL>>16)
	}
}

// pack appends the answer to buf.
func (r *reply) pack(buf []byte, code dnsmessage.RCode) []byte {
	b := dnsmessage.NewBuilder(buf, dnsmessage.Header{
		ID: r.head.ID, Response: true, OpCode: r.head.OpCode,
		RecursionDesired: r.head.RecursionDesired, RecursionAvailable: true,
		RCode: code & 0xf,
	})
	b.EnableCompression()
	err := b.StartQuestions()
	if err == nil && r.question != nil {
		err = b.Question(*r.question)
		err = errors.Join(err, r.packAnswer(&b))
	}
	if err == nil && r.edns {
		var h dnsmessage.ResourceHeader
		var opt dnsmessage.OPTResource
		if r.blocked {
			opt.Options = []dnsmessage.Option{blockedOption}
		}
		err = errors.Join(b.StartAdditionals(), h.SetEDNS0(ednsSize, code, false), b.OPTResource(h, opt))
	}
	if err != nil {
		return nil
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

func (r *reply) packAnswer(b *dnsmessage.Builder) error {
	if !r.addr.IsValid() && r.name == "" {
		return nil
	}
	if err := b.StartAnswers(); err != nil {
		return err
	}
	h := dnsmessage.ResourceHeader{Name: r.question.Name, Class: dnsmessage.ClassINET, TTL: dnsTTL}
	switch {
	case r.name != "":
		name, err := dnsmessage.NewName(r.name + ".")
		if err != nil {
			return err
		}
		return b.PTRResource(h, dnsmessage.PTRResource{PTR: name})
	case r.addr.Is4():
		return b.AResource(h, dnsmessage.AResource{A: r.addr.As4()})
	}
	return b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: r.addr.As16()})
}

// decide answers a question: it returns the code, and sets the record in r.
func (s nameServer) decide(r *reply, q dnsmessage.Question) dnsmessage.RCode {
	// RFC 6895, 3.1: types 0, 41 (OPT) and 128 to 255 are not types of data.
	if q.Class != dnsmessage.ClassINET || q.Type == 0 || q.Type == dnsmessage.TypeOPT || q.Type >= 128 && q.Type <= 255 {
		return dnsmessage.RCodeRefused
	}
	name := q.Name.String()
	if q.Type == dnsmessage.TypePTR {
		if addr, ok := reverse(name); ok {
			r.name = s.nameOf(addr)
			if r.name == "" {
				return dnsmessage.RCodeNameError
			}
			return dnsmessage.RCodeSuccess
		}
	}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		name = attributed(name)
	}
	h, err := policies.ParseHost(name)
	switch {
	case err != nil:
		return s.refuse(r, Record{Rule: ruleName, Reason: err.Error()})
	case h.Name() == "":
		return s.refuse(r, Record{Host: h, Rule: ruleName, Reason: "it is an address, not a name"})
	case isLocal(h):
		if q.Type == dnsmessage.TypeA {
			r.addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		if q.Type == dnsmessage.TypeAAAA {
			r.addr = netip.IPv6Loopback()
		}
		return dnsmessage.RCodeSuccess
	}
	snap := s.door.current.Load()
	if !snap.Names(h) {
		refused := s.door.refuseVerdict(snap, Record{Host: h}, snap.Connect(h, snap.port))
		return s.refuse(r, refused.Record)
	}
	if q.Type != dnsmessage.TypeA {
		// The answer has no records. The door speaks IPv4 with the box, even if it
		// speaks IPv6 with the server, and a relay cannot promise the features
		// that SVCB and HTTPS records offer.
		return dnsmessage.RCodeSuccess
	}
	addr, bound := s.door.admit(snap, h)
	if bound != nil {
		code := s.refuse(r, Record{Host: h, Rule: ruleLimits, Reason: bound.reason, Instead: bound.instead})
		if bound.passes {
			return dnsmessage.RCodeRefused // the name may be resolved later
		}
		return code
	}
	r.addr = addr
	return dnsmessage.RCodeSuccess
}

// attributed returns the name of the host that the records at a name are about. Records of
// services and the like are at names below the host's name whose labels begin with an
// underscore (RFC 8552), for example _https._tcp.deb.example, which apt looks up first.
func attributed(name string) string {
	for strings.HasPrefix(name, "_") {
		_, name, _ = strings.Cut(name, ".")
	}
	return name
}

// refuse records a name that was refused, at most once in each period of throttleFor, and
// returns NXDOMAIN.
func (s nameServer) refuse(r *reply, rec Record) dnsmessage.RCode {
	r.blocked = true
	rec.Time, rec.Proto = time.Now(), "dns"
	s.door.recordSome("dns "+rec.Host.String(), rec)
	return dnsmessage.RCodeNameError
}

// nameOf returns the name that an address has in the box, or "" if it has none.
func (s nameServer) nameOf(addr netip.Addr) string {
	if addr.IsLoopback() {
		return "localhost"
	}
	h, _ := s.door.names.name(addr)
	return h.Name()
}

// reverse returns the IPv4 address whose name is looked up by name (RFC 1035, 3.5).
func reverse(name string) (netip.Addr, bool) {
	digits, ok := strings.CutSuffix(strings.ToLower(name), ".in-addr.arpa.")
	parts := strings.Split(digits, ".")
	if !ok || len(parts) != 4 {
		return netip.Addr{}, false
	}
	var b [4]byte
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return netip.Addr{}, false
		}
		b[3-i] = byte(n)
	}
	return netip.AddrFrom4(b), true
}
