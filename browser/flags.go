package browser

import (
	"strings"

	"belljar.dev/sandbox"
)

// flags are what Chrome is started with. It opens no debugging port: the pipe
// is descriptors 3 and 4, and nobody else has it.
//
// The door is the wall, and the network of a box leads nowhere else. That Chrome
// asks it as a proxy keeps names out of the box's resolver and gives the door
// the name that was meant; the flags about WebRTC and QUIC keep Chrome from
// trying what cannot work.
//
// pin is of the key with which the door opens TLS, if it does. The shell reads no
// store of authorities, and an authority would be the wrong thing to name: a
// server that shows its certificate in a chain would do, while one that shows
// this key must have it. Names and times are then the door's to check, which
// knows the server.
func flags(degraded bool, pin string) []string {
	f := []string{
		"--headless",
		"--remote-debugging-pipe",
		"--user-data-dir=/tmp/profile",
		"--disk-cache-dir=/tmp/cache",
		"--proxy-server=http://" + sandbox.Proxy,
		"--proxy-bypass-list=<-loopback>", // or loopback and link-local would be dialled without asking
		"--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
		"--disable-quic",
		"--no-pings",
		"--disable-background-networking",
		"--disable-component-update",
		"--disable-domain-reliability",
		"--disable-sync",
		"--disable-default-apps",
		"--disable-extensions",
		"--disable-breakpad",
		"--disable-crash-reporter",
		"--disable-client-side-phishing-detection",
		"--no-first-run",
		"--no-default-browser-check",
		"--no-service-autorun",
		"--password-store=basic",
		"--use-mock-keychain",
		"--mute-audio",
		"--hide-scrollbars",
		"--disable-gpu",
		"--disable-hang-monitor",
		"--disable-prompt-on-repost",
		"--disable-ipc-flooding-protection",
		"--disable-background-timer-throttling",
		"--disable-backgrounding-occluded-windows",
		"--disable-renderer-backgrounding",
		"--disable-search-engine-choice-screen",
		"--force-color-profile=srgb",
		"--lang=en-US",
		"--disable-features=" + strings.Join([]string{
			"Translate", "OptimizationHints", "MediaRouter", "DialMediaRouteProvider", "InterestFeedContentSuggestions",
			"CertificateTransparencyComponentUpdater", "AutofillServerCommunication", "PrivacySandboxSettings4",
			// One page is loaded, none is gone back to. And the document that a
			// page begins with gives its frame and its view to what is loaded,
			// which is 10 ms less to make; renderers and sites are kept apart
			// by others.
			"BackForwardCache", "RenderDocument",
			"Prerender2", "NetworkPrediction", "WebUSB", "WebBluetooth", "WebHID", "Serial",
		}, ","),
	}
	if pin != "" {
		f = append(f, "--ignore-certificate-errors-spki-list="+pin)
	}
	if degraded {
		f = append(f, "--no-sandbox")
	}
	return append(f, "about:blank")
}
