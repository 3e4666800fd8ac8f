package browser_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

// publicForms are spellings of public addresses, all of which are 93.184.216.34
// or 2606:2800:21f:cb07:6820:80da:af6b:8b2c.
var publicForms = []string{
	"site.example", "SITE.example", "site.example.", "ｓｉｔｅ.example", "93.184.216.34", "93.184.55330", "93.12113954", "1572395042", "0x5db8d822", "0x5d.0xb8.0xd8.0x22",
	"0135.0270.0330.042", "９３.184.216.34", "93。184。216。34", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]",
}

// privateForms are the same spellings of addresses of this machine, and addresses of its
// networks.
var privateForms = []string{
	"loop.example", "LOOP.example", "loop.example.", "ｌｏｏｐ.example", "127.0.0.1", "127.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1",
	"0177.0.0.1", "１２７.０.０.１", "127。0。0。1", "[::1]", "localhost", "LOCALHOST", "localhost.", "sub.localhost", "ⓛocalhost",
	"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]",
	"0.0.0.0", "0", "[::]", "127.255.255.254", "host.belljar.internal", "10.0.0.1", "ten.example", "172.16.0.1", "192.168.0.1", "192.168.77.2", "8.8.4.4",
	"100.64.0.1", "100.100.100.200", "169.254.169.254", "metadata.google.internal", "168.63.129.16", "192.0.0.192", "198.19.255.254", "240.0.0.1", "255.255.255.255",
	"[fd00:ec2::254]", "[fe80::1]", "[fc00::1]", "[fec0::1]",
}

// TestNoPrivateAddress checks that no page reaches addresses of this machine and of its
// networks, in the spellings that browsers accept: not if a call asks for them, not by a
// redirect, and not if a page loads from them. The same spellings of public addresses are
// reached.
func TestNoPrivateAddress(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 2})
	four, six := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:2800:21f:cb07:6820:80da:af6b:8b2c")
	for name, addr := range map[string]string{
		"site.example": four.String(), "way.example": "93.184.216.40", "loop.example": "127.0.0.1", "ten.example": "10.0.0.1",
		"metadata.google.internal": "169.254.169.254",
	} {
		w.dns.set(name, addr)
	}
	g := policytest.GrantFor(t, fmt.Sprintf(`version: 1
defaults: {decision: allow, profile: pages}
profiles:
  pages:
    browser: sandboxed
    net: {mode: proxy, allow: ["*", %q, %q], limits: {connections: 512, rate: 10000}}
`, four, "["+six.String()+"]:80"), policies.Facts{Tenant: "t", Tool: "ReadDocs"})
	try := func(i int, host string, public bool) {
		target := "http://" + host + "/hit/"
		way := fmt.Sprintf("way.example/%d/to", i)
		w.redirect(way, target)
		for _, url := range []string{target, "http://" + way} {
			l, err := w.load(g, browser.Request{URL: url, Timeout: 15 * time.Second})
			if err == nil && !public {
				t.Errorf("%s: a page: %d %s", url, l.Status, l.HTML)
			}
		}
	}
	// One page loads from all of these hosts.
	loadFrom := func(path string, hosts []string) {
		var b strings.Builder
		for i, host := range hosts {
			fmt.Fprintf(&b, `<img src="http://%s/hit/?%d">`, host, i)
		}
		w.page("way.example/"+path, "<!doctype html><p>x"+b.String())
		if _, err := w.load(g, browser.Request{URL: "http://way.example/" + path, Timeout: 15 * time.Second}); err != nil {
			t.Errorf("the page with %d pictures: %v", len(hosts), err)
		}
	}
	for i, host := range publicForms {
		before := w.public()
		if try(i, host, true); w.public() < before+2 {
			t.Errorf("%s was not reached, so that this way of writing shows nothing", host)
		}
	}
	reached := w.public()
	if loadFrom("public", publicForms); w.public() < reached+len(publicForms) {
		t.Errorf("a page reached %d of %d, so that not all ways of writing show something", w.public()-reached, len(publicForms))
	}
	reached = w.public()
	for i, host := range privateForms {
		try(len(publicForms)+i, host, false)
		for addr, hits := range w.private() {
			t.Errorf("%s reached %v: %q", host, addr, hits)
		}
	}
	loadFrom("private", privateForms)
	for addr, hits := range w.private() {
		t.Errorf("a page that loads from all of them reached %v: %q", addr, hits)
	}
	t.Logf("%d spellings of public addresses, reached %d times; %d of private ones, each asked for, redirected to and loaded, reached 0 times", len(publicForms), reached, len(privateForms))
}

// public returns how often the site was reached, at either of its addresses.
func (w *world) public() int {
	return len(w.at(netip.MustParseAddr("93.184.216.34"))) + len(w.at(netip.MustParseAddr("2606:2800:21f:cb07:6820:80da:af6b:8b2c")))
}

// private returns the hits at all addresses other than those of the site and of the way to
// it.
func (w *world) private() map[netip.Addr][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[netip.Addr][]string{}
	for addr, hits := range w.hits {
		if s := addr.String(); !strings.HasPrefix(s, "93.184.216.") && !strings.HasPrefix(s, "2606:") {
			all[addr] = hits
			delete(w.hits, addr)
		}
	}
	return all
}
