package seccomp

import "golang.org/x/sys/unix"

// A browser has a sandbox of its own: its renderers give up the network and all files by
// namespaces that they make inside the box. This requires calls that other boxes do not
// get, and gives every process of the box the capabilities of a namespace that it made. So
// a box that nests (policies.Grant.NestsNamespaces) runs nothing but a browser, and is
// denied the other uses of such capabilities.

// nestKinds are the namespaces that may be made: Chromium's sandbox needs no others
// (sandbox/linux/services/namespace_sandbox.cc).
const nestKinds = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// netOptions are socket options by which a process with CAP_NET_ADMIN sets up tables of the
// kernel. They had security holes (CVE-2016-4997, CVE-2021-22555). Their numbers are the
// same in IPv4 and IPv6 (uapi/linux/netfilter_ipv4/ip_tables.h).
var netOptions = []uint32{
	64, 65, // IPT_SO_SET_REPLACE, IPT_SO_SET_ADD_COUNTERS
	96, 97, // ARPT_SO_SET_*
	128, 129, // EBT_SO_SET_*
}

// nesting returns the rules that replace those of byArgument for the same calls in the
// filter of such a box. all are the tests for the sockets that byArgument allows.
func nesting(all [][]test) map[string]call {
	table := map[string]call{
		"clone":   only(without(0, cloneNamespaces&^nestKinds)),
		"unshare": only(values(0, unix.CLONE_NEWUSER)...),
		// A renderer changes its root to the empty directory of a process that has ended.
		// Nothing is open there that leads further up.
		"chroot": {action: actAllow},
		// A process with capabilities in a network namespace of its own gets no raw socket
		// by CAP_NET_RAW, and cannot use CAP_NET_ADMIN to set up that network.
		"socket": only(inner(all)...),
	}
	bad := [][]test{{{arg: 1, is: unix.SOL_TCP}, {arg: 2, is: unix.TCP_ULP}}}
	for _, level := range []uint32{unix.SOL_IP, unix.SOL_IPV6} {
		for _, option := range netOptions {
			bad = append(bad, []test{{arg: 1, is: level}, {arg: 2, is: option}})
		}
	}
	table["setsockopt"] = but(bad...)
	return table
}

// inner returns the tests for sockets without raw sockets, and without netlink, by which a
// network is set up.
func inner(all [][]test) [][]test {
	var out [][]test
	for _, tests := range all {
		switch tests[0].is {
		case unix.AF_NETLINK:
		case unix.AF_INET, unix.AF_INET6:
			for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
				out = append(out, []test{tests[0], {arg: 1, mask: 0xf, is: kind}, tests[2]})
			}
		default:
			out = append(out, tests)
		}
	}
	return out
}
