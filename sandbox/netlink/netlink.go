// Package netlink sets up the network of a box from outside it.
//
// A netlink socket belongs to the network namespace in which it was made, even
// after it was passed to another process. The kernel checks the rights both of
// the process that made it and of the sender (netlink(7)). An init makes the
// sockets and passes them to the supervisor. The supervisor, which is above every
// box's user namespace, sends the messages.
package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// loopback is the index of the loopback interface, which is the first interface of every
// network namespace (kernel: LOOPBACK_IFINDEX).
const loopback = 1

// patience bounds the wait for the kernel's answer, which it gives
// before a send returns.
const patience = 2 * time.Second

// AllLocal brings the loopback interface up and makes every IPv4 address local to the
// namespace ("AnyIP": ip-route(8), type local): a connection to any address ends there, and
// is refused immediately if nothing listens. The interface gets the IPv4 address own,
// because C libraries believe that a host with nothing but 127.0.0.1 has no IPv4, and then
// return no IPv4 addresses (AI_ADDRCONFIG, getaddrinfo(3)). sock is a NETLINK_ROUTE socket.
func AllLocal(sock int, own netip.Addr) error {
	link := newMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, 1, func(m *message) {
		m.raw(unix.AF_UNSPEC, 0, 0, 0) // struct ifinfomsg: family, type
		m.word(loopback)
		m.word(unix.IFF_UP)
		m.word(unix.IFF_UP)
	})
	route := newMessage(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE, 2, func(m *message) {
		// struct rtmsg: the default route of the table of local addresses
		m.raw(unix.AF_INET, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL)
		m.word(0)
		m.attr(unix.RTA_OIF, func() { m.word(loopback) })
	})
	address := newMessage(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE, 3, func(m *message) {
		m.raw(unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE) // struct ifaddrmsg
		m.word(loopback)
		bytes := own.As4()
		m.attr(unix.IFA_LOCAL, func() { m.raw(bytes[:]...) })
	})
	for _, text := range [][]byte{link, route, address} {
		if err := do(sock, text, 1); err != nil {
			return err
		}
	}
	return nil
}

// Redirect redirects the TCP connections that are made in the namespace to the
// address and port of to, which must be IPv4. Connections to 127.0.0.0/8 and to
// the address of to are not redirected. sock is a NETLINK_NETFILTER socket. In
// the syntax of nft(8):
//
//	table ip belljar { chain out { type nat hook output priority dstnat
//	    ip daddr 127.0.0.0/8 accept
//	    ip daddr ADDRESS accept
//	    meta l4proto tcp dnat to ADDRESS:PORT } }
func Redirect(sock int, to netip.AddrPort) error {
	door := to.Addr().As4()
	port := binary.BigEndian.AppendUint16(nil, to.Port())
	const ack, batchBegin, batchEnd = unix.NLM_F_ACK, unix.NFNL_MSG_BATCH_BEGIN, unix.NFNL_MSG_BATCH_END
	var text []byte
	seq := uint32(0)
	add := func(kind, flags uint16, family byte, resource uint16, body func(*message)) {
		seq++
		text = append(text, newMessage(kind, flags, seq, func(m *message) {
			m.raw(family, unix.NFNETLINK_V0, byte(resource>>8), byte(resource)) // struct nfgenmsg
			if body != nil {
				body(m)
			}
		})...)
	}
	const nft = unix.NFNL_SUBSYS_NFTABLES << 8
	const table, chain = "belljar", "out"
	add(batchBegin, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	add(nft|unix.NFT_MSG_NEWTABLE, ack|unix.NLM_F_CREATE, unix.AF_INET, 0, func(m *message) {
		m.text(unix.NFTA_TABLE_NAME, table)
	})
	add(nft|unix.NFT_MSG_NEWCHAIN, ack|unix.NLM_F_CREATE, unix.AF_INET, 0, func(m *message) {
		m.text(unix.NFTA_CHAIN_TABLE, table)
		m.text(unix.NFTA_CHAIN_NAME, chain)
		m.nest(unix.NFTA_CHAIN_HOOK, func() {
			const output, priority = 3, -100 // NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST
			m.big(unix.NFTA_HOOK_HOOKNUM, output)
			m.big(unix.NFTA_HOOK_PRIORITY, 1<<32+priority)
		})
		m.text(unix.NFTA_CHAIN_TYPE, "nat")
	})
	rule := func(expressions ...func(*message)) {
		add(nft|unix.NFT_MSG_NEWRULE, ack|unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.AF_INET, 0, func(m *message) {
			m.text(unix.NFTA_RULE_TABLE, table)
			m.text(unix.NFTA_RULE_CHAIN, chain)
			m.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
				for _, e := range expressions {
					m.nest(unix.NFTA_LIST_ELEM, func() { e(m) })
				}
			})
		})
	}
	rule(destination(1), equal(127), accept)
	rule(destination(4), equal(door[:]...), accept)
	rule(transport, equal(unix.IPPROTO_TCP), load(unix.NFT_REG_1, door[:]...), load(unix.NFT_REG_2, port...), dnat)
	add(batchEnd, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	return do(sock, text, int(seq)-2) // the begin and end of a batch are not answered
}

// expression adds an expression of that kind to a rule.
func expression(m *message, kind string, body func()) {
	m.text(unix.NFTA_EXPR_NAME, kind)
	m.nest(unix.NFTA_EXPR_DATA, body)
}

// destination loads the first size bytes of the destination address.
func destination(size uint64) func(*message) {
	return func(m *message) {
		expression(m, "payload", func() {
			m.big(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
			m.big(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER)
			m.big(unix.NFTA_PAYLOAD_OFFSET, 16) // RFC 791, 3.1
			m.big(unix.NFTA_PAYLOAD_LEN, size)
		})
	}
}

// transport loads the number of the protocol above IP.
func transport(m *message) {
	expression(m, "meta", func() {
		m.big(unix.NFTA_META_DREG, unix.NFT_REG_1)
		m.big(unix.NFTA_META_KEY, unix.NFT_META_L4PROTO)
	})
}

// equal continues the rule only if the bytes that were loaded are value.
func equal(value ...byte) func(*message) {
	return func(m *message) {
		expression(m, "cmp", func() {
			m.big(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
			m.big(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
			m.nest(unix.NFTA_CMP_DATA, func() { m.attr(unix.NFTA_DATA_VALUE, func() { m.raw(value...) }) })
		})
	}
}

func load(register uint64, value ...byte) func(*message) {
	return func(m *message) {
		expression(m, "immediate", func() {
			m.big(unix.NFTA_IMMEDIATE_DREG, register)
			m.nest(unix.NFTA_IMMEDIATE_DATA, func() { m.attr(unix.NFTA_DATA_VALUE, func() { m.raw(value...) }) })
		})
	}
}

func accept(m *message) {
	expression(m, "immediate", func() {
		m.big(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		m.nest(unix.NFTA_IMMEDIATE_DATA, func() {
			m.nest(unix.NFTA_DATA_VERDICT, func() { m.big(unix.NFTA_VERDICT_CODE, 1) }) // NF_ACCEPT
		})
	})
}

func dnat(m *message) {
	expression(m, "nat", func() {
		m.big(unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT)
		m.big(unix.NFTA_NAT_FAMILY, unix.AF_INET)
		m.big(unix.NFTA_NAT_REG_ADDR_MIN, unix.NFT_REG_1)
		m.big(unix.NFTA_NAT_REG_PROTO_MIN, unix.NFT_REG_2)
	})
}

// message is a netlink message that is being written.
type message struct{ bytes []byte }

// newMessage returns one message.
func newMessage(kind, flags uint16, seq uint32, body func(*message)) []byte {
	m := &message{make([]byte, unix.SizeofNlMsghdr, 256)}
	body(m)
	h := m.bytes
	binary.NativeEndian.PutUint32(h, uint32(len(h)))
	binary.NativeEndian.PutUint16(h[4:], kind)
	binary.NativeEndian.PutUint16(h[6:], unix.NLM_F_REQUEST|flags)
	binary.NativeEndian.PutUint32(h[8:], seq)
	return h
}

func (m *message) raw(b ...byte) { m.bytes = append(m.bytes, b...) }
func (m *message) word(v uint32) { m.bytes = binary.NativeEndian.AppendUint32(m.bytes, v) }

// attr adds one attribute, with padding to the next multiple of four
// (netlink(3), NLA_ALIGN).
func (m *message) attr(kind uint16, body func()) {
	at := len(m.bytes)
	m.raw(0, 0, 0, 0)
	body()
	binary.NativeEndian.PutUint16(m.bytes[at:], uint16(len(m.bytes)-at))
	binary.NativeEndian.PutUint16(m.bytes[at+2:], kind)
	for len(m.bytes)%4 != 0 {
		m.raw(0)
	}
}

func (m *message) nest(kind uint16, body func()) { m.attr(unix.NLA_F_NESTED|kind, body) }
func (m *message) text(kind uint16, s string) {
	m.attr(kind, func() { m.raw(append([]byte(s), 0)...) })
}

// big adds a number in network byte order, which netfilter expects.
func (m *message) big(kind uint16, v uint64) {
	m.attr(kind, func() { m.bytes = binary.BigEndian.AppendUint32(m.bytes, uint32(v)) })
}

// do sends messages and reads that many answers.
func do(sock int, text []byte, answers int) error {
	limit := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(sock, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return err
	}
	if err := unix.Sendto(sock, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for answers > 0 {
		n, _, err := unix.Recvfrom(sock, buf, 0)
		if err != nil {
			return fmt.Errorf("read the kernel's answer: %w", err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofNlMsghdr; answers-- {
			size := int(binary.NativeEndian.Uint32(b))
			if binary.NativeEndian.Uint16(b[4:]) != unix.NLMSG_ERROR || size < unix.SizeofNlMsghdr+4 || size > len(b) {
				return errors.New("the kernel's answer cannot be read")
			}
			if errno := -int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:])); errno != 0 {
				return unix.Errno(errno)
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
	return nil
}

// Original returns the address to which a connection was made that Redirect has redirected.
// conn is the accepted socket (kernel: SO_ORIGINAL_DST).
func Original(conn int) (netip.AddrPort, error) {
	const originalDestination = 80 // include/uapi/linux/netfilter_ipv4.h
	// A struct sockaddr_in is shorter than the struct that this call reads, and
	// lies in the first field of it.
	got, err := unix.GetsockoptIPv6Mreq(conn, unix.SOL_IP, originalDestination)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find original destination: %w", err)
	}
	b := got.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4])), nil
}
