package browser

import (
	"strings"

	"belljar.dev/sandbox"
)

// flags returns the command line flags of Chrome. It opens no debugging port: the pipe is
// descriptors 3 and 4, and no other process has it.
//
// The door is the wall, and the network of a box leads nowhere else. Chrome uses the door
// as a proxy, which keeps names out of the box's resolver and gives the door the name that
// was meant. The flags about WebRTC and QUIC keep Chrome from trying what cannot work.
//
// pin is the pin of the key with which the door decrypts TLS, if it does. The headless
// shell reads no store of authorities, and an authority would be the wrong thing to trust:
// then a server could pass by showing the authority's certificate in its chain, whereas a
// server that shows this key must have it. Names and times are checked by the door, which
// knows the server.
func flags(degraded bool, pin string) []string {
	f := []string{
		"--headless",
		"--remote-debugging-pipe",
		"--user-data-dir=/tmp/profile",
		"--disk-cache-dir=/tmp/cache",
		"--proxy-server=http://" + sandbox.Proxy,
		"--proxy-bypass-list=<-loopback>", // without it, loopback and link-local addresses would be dialled directly
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
			// No call goes back to a page of the pool, and a document to which a session
			// goes back is requested again, so that it is judged. Without RenderDocument,
			// the first document of a page passes its frame and its view on to the next
			// document, which saves 10 ms; other features keep renderers and sites apart.
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
