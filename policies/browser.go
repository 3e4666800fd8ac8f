package policies

import "fmt"

// Browser says whether pages may be loaded in a Chrome for calls of a profile,
// and behind which walls. The zero value means no Chrome.
type Browser int

// The values, the strictest first.
const (
	BrowserOff       Browser = iota // pages are fetched, and never run
	BrowserSandboxed                // a Chrome in a box with its own sandbox on, or no Chrome
	// like sandboxed if the host allows it, otherwise a Chrome in a box without its own
	// sandbox
	BrowserDegraded
)

// String is the value as policies spell it.
func (b Browser) String() string {
	switch b {
	case BrowserSandboxed:
		return "sandboxed"
	case BrowserDegraded:
		return "degraded"
	case BrowserOff:
	}
	return "off"
}

// Browser returns whether pages may be loaded in a Chrome for the call.
func (g profileGrant) Browser() Browser { return g.browser.walls }

// NestsNamespaces reports whether processes in the box may make user, pid and network
// namespaces of their own below the box's: Chrome's own sandbox is made of these. It is
// true only of the box of a browser (see ForBrowser), never of a box that commands run in.
func (g Grant) NestsNamespaces() bool { return g.nests }

// OfBrowser reports whether the grant is that of a browser's box.
func (g Grant) OfBrowser() bool { return g.browserBox }

// BrowserBox says how the box of a browser is set up.
type BrowserBox struct {
	Nested  bool // the browser's own sandbox is on
	Offline bool // nothing leaves the box, whatever the profile lets through
	// Downloads is the size in bytes of BrowserDownloads, a file system of its own in
	// the box. Zero means that the box has no such directory.
	Downloads int64
}

// BrowserDownloads is the directory in its box in which a browser stores downloads.
const BrowserDownloads = "/tmp/down"

// Downloads returns the size in bytes of BrowserDownloads in the box of a browser.
func (g Grant) Downloads() int64 { return g.downloads }

// ForBrowser returns the grant of the box that a Chrome runs in for the call. The box has
// the egress and the limits of the profile, but nothing of the workspace, no mounts, no
// image, no environment and no ports. ForBrowser fails if the profile has no browser, or if
// it requires the browser's own sandbox and b has that sandbox off.
func (g Grant) ForBrowser(b BrowserBox) (Grant, error) {
	switch {
	case g.IsZero():
		return Grant{}, fmt.Errorf("open a browser: the call has no grant")
	case g.browser.walls == BrowserOff:
		return Grant{}, fmt.Errorf("open a browser: profile %q grants no browser; browser: sandboxed in the profile would grant one", g.profile)
	case !b.Nested && g.browser.walls != BrowserDegraded:
		return Grant{}, fmt.Errorf("open a browser: profile %q grants no browser without Chrome's own sandbox; browser: degraded in the profile would grant one", g.profile)
	}
	g.access, g.system, g.mounts, g.publish, g.image = AccessNone, true, nil, nil, ""
	g.storage, g.protect, g.env, g.exec = StorageMemory, Protect{}, nil, ExecOff
	g.policy, g.call, g.below = nil, nil, nil
	g.browserBox, g.nests, g.downloads = true, b.Nested, b.Downloads
	if b.Offline {
		g.network, g.egress = NetworkNone, nil
	}
	return g, nil
}
