package policies

var profileShape = &shape{
	name: "profile", doc: "What a box contains and may use. Without any key: nothing of the host, no network, the default limits.",
	keys: []key{
		{"extends", aText(), "Another profile, from which this one takes over each key that it does not have itself.", false},
		{"fs", filesShape.ref(), "What a box sees of the host's files.", false},
		{"net", netShape.ref(), "What may leave a box. Without it: nothing.", false},
		{"publish", oneOrMore(aPortRange, maxPublish), "Ports of a box that a person may open on this machine's loopback.", false},
		{"limits", limitsShape.ref(), "What a box may use. Each is above zero: a limit cannot be switched off.", false},
		{"env", someVariables, "Variables that every command gets.", false},
		{"require", someTexts(aWord(requirable...)), "Limits that the host must be able to enforce, or no box is opened.", false},
		{"audit", aWord("required"), "A call whose decision cannot be written to the audit log does not run.", false},
		{"exec", aWord(ExecOff.String(), ExecObserve.String(), ExecEnforce.String()), "What is done about each program that a command starts: nothing, recording it, or asking the policy. Without it: observe.", false},
		{"read", readShape.ref(), "How pages are read for its calls.", false},
		{"browser", either(aWord(browserWords...), browserShape.ref()), "Whether pages may be loaded in a Chrome: never; in a box, with Chrome's own sandbox switched on; or in a box alone, if the host allows no more. As a mapping: also what agents may do with it. Without it: off.", false},
	},
}

func someVariables() *form {
	return &form{Type: "object", mappingForm: mappingForm{
		PropertyNames: &form{Pattern: variablePattern}, MaxProperties: maxEnv,
		Additional: &form{Type: []string{"string", "number", "boolean"}},
	}}
}

func aPortRange() *form {
	return &form{Type: []string{"integer", "string"}, Minimum: new(1.0), Maximum: 65535, Pattern: "^" + portPattern + "(-" + portPattern + ")?$", Examples: []any{3000, "8000-8099"}}
}

var filesShape = &shape{
	name: "fs", doc: "What a box sees of the host's files.",
	keys: []key{
		{"system", aTruth(), "The host's /usr, /bin, /lib and the like are visible, read-only. Most programs need them.", false},
		{"image", textLike(imagePattern, "debian", "tools/go:1.26"), "The name of an image that is the box's root file system. Not together with system.", false},
		{"workspace", aWord("rw", "ro", "overlay", "none"), "The workspace: writable, read-only, writable in a layer over it, or not visible. Without it: none.", false},
		{"read", someTexts(textLike("^/.", "/opt/tools", "/srv/models:/models")), "Further paths of the host, and after a colon their place in the box.", false},
		{"write", someTexts(textLike("^/.", "/srv/cache")), "Further paths, as in read, which the box can also write.", false},
		{"storage", aWord("memory", "disk"), "Where a box stores what it writes outside the workspace: in memory, or in an area of the host's disk. Without it: memory.", false},
		{"protect", either(aWord("default", "none"), aFullList(textLike(`^\s*[^/\s]`, "deploy/"), maxTexts)), "What a box cannot write in a writable workspace: the default paths, none, or a list of paths besides the default ones.", false},
	},
	also: func(f *form) {
		f.Not = has("system", true)
		f.Not.Required = []string{"image", "system"}
	},
}

var readShape = &shape{
	name: "read", doc: "How pages are read.",
	keys: []key{
		{"render", aWord(renders...), "Which pages a browser renders first: none, those that are empty without their scripts, or every one. Without it: auto.", false},
		{"redirects", aWord("report", "follow"), "A redirect to another host is reported to the agent, or followed if the rules allow it. Without it: report.", false},
		{"robots", aWord("ignore", "respect"), "Whether robots.txt is ignored, or a page that it forbids to robots is not read. Without it: ignore.", false},
		{"headers", someTexts(textLike(`^[^\s/:]+$`, "Accept-Language")), "Names of headers that a call may send with its request for the page.", false},
	},
}

var netShape = &shape{
	name: "net", doc: "What may leave a box.",
	keys: []key{
		{"mode", aWord("none", "proxy"), "Nothing, or what is named here.", true},
		{"allow", oneOrMore(egressEntry(), maxEgressRules), "What may be reached: a host, host:port, or a mapping.", false},
		{"deny", oneOrMore(egressEntry(), maxEgressRules), "What may not be reached, whatever allow says.", false},
		{"allow_private", someTexts(textLike(`^[^*\s]+$`, "host.belljar.internal:3000", "10.1.2.3:5432")), "Hosts that may be reached although their address is not a public one.", false},
		{"ports", oneOrMore(aPort(), maxPorts), "The ports of each entry of allow and allow_private that names none. Without it: 80 and 443.", false},
		{"tls", aWord("pass", "intercept"), "Whether TLS is opened at the door, with an authority that only this box trusts. Without it: pass.", false},
		{"limits", netLimitsShape.ref(), "How much may leave.", false},
		{"secrets", aFullList(netSecretShape.ref(), maxSecretHeaders), "Headers with secrets that the door adds to requests. The box never sees the values.", false},
	},
	also: func(f *form) {
		f.AllOf = append(
			f.AllOf,
			whenForm(has("mode", "none"), &form{mappingForm: mappingForm{MaxProperties: 1}}),
			whenForm(has("mode", "proxy"), hasOne("allow", "allow_private")),
		)
	},
}

// egressEntry returns the form of an entry of allow or deny.
func egressEntry() value {
	return either(hostLike("api.github.com", "*.pypi.org", "files.example:8443"), egressShape.ref())
}

// hostLike returns the form of a rule's host.
func hostLike(examples ...any) value {
	return textLike(`^([*]|([*][.])?[^*/\s]+)(:`+portPattern+`)?$`, examples...)
}

var egressShape = &shape{
	name: "egress", doc: "A host, and which connections and requests to it.",
	keys: []key{
		{"host", hostLike(), "A name, a name with *. before it for all names below, an address, or *.", true},
		{"ports", oneOrMore(aPort(), maxPorts), "The ports. Without it: those of net, and under deny all ports.", false},
		{"methods", someTexts(textLike(`^[^a-z\s]+$`, "GET", "HEAD")), "Methods of HTTP. Without it: any.", false},
		{"paths", someTexts(textLike("^/", "/v1/**")), "Patterns of paths. Without it: any.", false},
	},
}

var (
	limitsShape    = profileLimits.shape("limits", "What a box may use.")
	netLimitsShape = netLimits.shape("net-limits", "How much may leave a box.")
)

var netSecretShape = &shape{
	name: "net-secret", doc: "A header with a secret, for requests to a host.",
	keys: []key{
		{"secret", aText(), "The name of the secret under secrets.", true},
		{"host", textLike(`^([*][.])?[^*/\s]+$`), "A name, a name with *. before it, or an address, which allow or allow_private reaches.", true},
		{"methods", someTexts(textLike(`^[^a-z\s]+$`, "GET", "HEAD")), "Methods, as in allow. Without it: any except TRACE.", false},
		{"paths", someTexts(textLike("^/", "/v1/**")), "Patterns of paths, as in allow. Without it: any.", false},
		{"header", aText("Authorization"), "The name of the header.", true},
		{"value", textLike(`\$\{secret:[^}]*\}`, "Bearer ${secret:github}"), "The value of the header, which contains ${secret:NAME} once.", true},
	},
}

var secretShape = &shape{
	name: "secret", doc: "Where a secret is kept: exactly one place.",
	keys: []key{
		{"env", textLike(variablePattern, "GITHUB_TOKEN"), "A variable of belljar's own environment.", false},
		{"file", textLike("^/.", "/etc/belljar/token"), "A file of the host, by its absolute path.", false},
		{"command", aFullList(aText(), maxArguments), "A program of the host that prints the secret, and its arguments.", false},
	},
	also: func(f *form) { f.MinProperties, f.MaxProperties = 1, 1 },
}
