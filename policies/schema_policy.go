package policies

// policyShape is the shape of a policy: the file that --policy names.
var policyShape = &shape{
	name: "policy", doc: "What an agent may do, and what its boxes contain.",
	keys: []key{
		{"version", aVersion(), "The version of this format: 1.", true},
		{"defaults", defaultsShape.ref(), "What applies if neither a call nor a rule says more.", false},
		{"ask", aWord(ChannelElicit.String(), ChannelConsole.String(), ChannelDefault.String(), ChannelDeny.String()), "How AskUserQuestion reaches a person: by a form of the client and by belljar ask; by belljar ask alone; not at all, so that the agent gets the answer that it recommended itself; or deny, which refuses the call. Without it: elicit.", false},
		{"secrets", byName(namePattern, secretShape.ref(), maxSecrets), "Where the operator keeps secrets, by name; never their values.", false},
		{"profiles", byName(namePattern, profileShape.ref(), maxProfiles), "What boxes contain and may use, by name. The sandbox is the wall; a profile says where it stands.", true},
		{"totals", totalsShape.ref(), "What all boxes of one tenant may use together.", false},
		{"audit", auditShape.ref(), "What is recorded of each call.", false},
		{"tenants", byName(namePattern, tenantShape.ref(), maxTenants), "Whose calls are served, by name.", false},
		{"auth", authShape.ref(), "How clients over HTTP log in without the token of a tenant.", false},
		{"console", consoleShape.ref(), "The people that may use the console from other machines.", false},
		{"upstreams", upstreamsShape.ref(), "Other people's MCP servers, whose tools clients see as belljar's own.", false},
		{"projects", byName("^/", aList(aText(), maxProjectFiles), maxProjects), "Files of rules for one workspace, by its absolute path.", false},
		{"rules", aList(ruleShape.ref(), maxRules), "Who may do what. Their order has no meaning: the strictest that speaks about a part of a call wins.", false},
		{"tests", aList(testShape.ref(), maxTests), "Calls and what they must get. They run whenever the file is read, and one that fails is a fault.", false},
	},
}

// layerShape is the shape of a file of rules that a policy names.
var layerShape = &shape{
	name: "layer", doc: "Rules of a tenant or a project, which can only narrow what the policy allows.",
	keys: []key{
		{"version", aVersion(), "The version of this format: 1.", true},
		{"defaults", layerDefaultsShape.ref(), "What applies if no rule of the layer matches.", false},
		{"narrow", narrowShape.ref(), "What the layer takes away from every box.", false},
		{"rules", aList(ruleShape.ref(), maxRules), "Rules, as in a policy. An allow means that the layer does not object.", false},
		{"tests", aList(testShape.ref(), maxTests), "Tests, as in a policy, of all layers down to this one.", false},
	},
}

func aVersion() value { return func() *form { return &form{Const: 1, Type: "integer"} } }

var defaultsShape = &shape{
	name: "defaults", doc: "What applies if neither a call nor a rule says more.",
	keys: []key{
		{"decision", aWord(Deny.String(), Ask.String(), Allow.String()), "The verdict on a part that no rule matches. Without it: deny.", false},
		{"unparsable", aWord(Deny.String(), Ask.String()), "The most permissive verdict on a script that cannot be read, if no rule matches it. Without it: ask.", false},
		{"profile", aText(), "The profile of a call that asks for none. Required if there are several profiles.", false},
		{"no_approver", aWord(Deny.String()), "The verdict on a question that nobody can answer: deny is the only value.", false},
		{"ask", askShape.ref(), "How a person is asked.", false},
	},
}

var layerDefaultsShape = &shape{
	name: "layer-defaults", doc: "What applies if no rule of the layer matches.",
	keys: []key{{"decision", aWord(Deny.String(), Ask.String(), Allow.String()), "The verdict on a part that no rule of the layer matches. Without it: allow, which means that the layer does not object.", false}},
}

var narrowShape = &shape{
	name: "narrow", doc: "What a layer takes away from every box.",
	keys: []key{
		{"read_only", aTruth(), "No box writes a file of the host, its workspace included.", false},
		{"offline", aTruth(), "Nothing leaves a box, and none of its ports is published.", false},
		{"limits", limitsShape.ref(), "The highest value of each limit. A lower limit of the profile stays.", false},
	},
}

var askShape = &shape{
	name: "ask", doc: "How a person is asked.",
	keys: []key{
		{"timeout", aTime("10m"), "The time after which no answer to a question counts as a no; at most 24h. Without it: 10m.", false},
		{"return_after", aTime("20s"), "The time after which the call that asks returns, even without an answer; at most 50s, and no longer than timeout. Without it: 20s.", false},
		{"remember", aRemember(), "How much an approval may cover, if the rule that asks does not say. Without it: once and session.", false},
		{"max_remember", aTime("8h"), "The longest time that any remember may name; at most 720h. Without it: 8h.", false},
	},
}

var totalsShape = totalLimits.shape("totals", "What all boxes of one tenant may use together. Not less than a profile gives to one box.")

var auditShape = &shape{
	name: "audit", doc: "What is recorded of each call.",
	keys: []key{
		{"level", aWord(auditLevels...), "How much is recorded: nothing; who called what; also the arguments; or also the text of the results. Without it: request.", false},
		{"required", aTruth(), "A call whose decision cannot be written does not run.", false},
		{"fsync", aTime("200ms"), "The longest time until a record is on the disk; at most 1m. Without it: 200ms.", false},
		{"rotate", aSize(1<<40, "64MiB"), "The bytes after which a new file is begun; at least 64KiB. Without it: 64MiB.", false},
		{"keep", aCount(10_000), "How many full files are kept. Without it: 30.", false},
		{"redact", someTexts(aWord("secrets", "env", "emails", "tokens", "none")), "What is taken out of records. Without it: secrets and env.", false},
		{"path", textLike("^/.", "/var/log/belljar"), "The directory of the log, absolute. Without it: audit in the state directory.", false},
		{"otlp", either(aTruth(), textLike("^[hH][tT][tT][pP][sS]?://", "http://127.0.0.1:4318")), "The collector that gets a span for each call, or true for the one that the environment names.", false},
	},
	also: func(f *form) {
		f.AllOf = append(f.AllOf, whenForm(has("level", AuditNone.String()), &form{Not: has("required", true)}))
	},
}

var tenantShape = &shape{
	name: "tenant", doc: "Whose calls are served.",
	keys: []key{
		{"token", textLike(tokenPattern, "${env:TOKEN_SHA256}", "${file:/etc/belljar/token.sha256}"), "Where the SHA-256 of the tenant's bearer token is kept. Without it: only other tokens give access over HTTP.", false},
		{"profile", aText(), "The profile of calls that ask for none. Without it: that of defaults.", false},
		{"may_request", aList(aText(), maxProfiles), "Further profiles that its calls may ask for, and that rules may grant them.", false},
		{"rules", aList(aText(), maxTenantRules), "Files of rules that apply to this tenant and can only narrow.", false},
		{"approvers", aList(aText(), maxApprovers), "Who may answer its questions. An empty list means nobody.", false},
		{"workspace", textLike("^/.", "/srv/acme"), "The directory that its boxes see as /workspace, by its absolute path. Without it: that of the server.", false},
		{"places", either(byName(namePattern, textLike("^/.", "/srv/acme-site"), maxPlaces), aFullList(textLike(namePattern, "site"), maxPlaces)), "Directories of its further places, by name; or a list of their names, for workers of a fleet, which make the directories.", false},
		{"limit", tenantLimitShape.ref(), "How much the tenant may send.", false},
	},
}

var consoleShape = &shape{
	name: "console", doc: "The people that may use the console from other machines.",
	keys: []key{
		{"people", byName(namePattern, personShape.ref(), maxPeople), "The people, by name. On loopback, a person with access to the server's control socket needs no entry.", false},
		{"provider", providerShape.ref(), "The OpenID Provider at which further people log in.", false},
	},
}

var providerShape = &shape{
	name: "provider", doc: "An OpenID Provider at which people log in to the console.",
	keys: []key{
		{"url", textLike("^https://", "https://login.example.com/realms/team"), "Its issuer identifier, exactly as the provider writes it.", true},
		{"client", aText("belljar"), "The name by which the provider knows this server (client_id).", true},
		{"secret", textLike(tokenPattern, "${file:/etc/belljar/client-secret}", "${env:CLIENT_SECRET}"), "Where the secret of the client is kept. Without it the client has none, and PKCE alone protects the login.", false},
		{"scopes", aList(textLike(scopePattern, "groups"), maxScopes), "Scopes that are requested in addition to openid.", false},
		{"algorithms", someTexts(aWord(Algorithms...)), "How its ID tokens may be signed. Without it: RS256, PS256, ES256 and EdDSA.", false},
		{"addresses", someTexts(aText("10.20.0.0/16")), "Addresses that are not public, which its hosts may have.", false},
		{"name", aText("email"), "The claim with the name of a person, which is shown in parentheses after the issuer and the subject.", false},
		{"roles", aFullList(roleShape.ref(), maxTenantWhens), "Who may log in, and in which role. The first entry whose condition is true counts.", true},
	},
}

var roleShape = &shape{
	name: "role-of", doc: "A condition, and what people may do for whose claims it is true.",
	keys: []key{
		{"when", aText(`"ops" in claims.groups`), "The condition, in CEL, about the variable claims: those of the ID token.", true},
		{"role", aWord(RoleNames...), "What these people may do.", true},
		{"tenants", aFullList(aText(), maxTenants), "The tenants whose things these people may see and decide about. Without it: all, and the server itself.", false},
	},
}

var personShape = &shape{
	name: "person", doc: "A person who may use the console.",
	keys: []key{
		{"role", aWord(RoleNames...), "What the person may do: see everything, also answer, or also end and change things.", true},
		{"tenants", aFullList(aText(), maxTenants), "The tenants whose things the person may see and decide about. Without it: all, and the server itself.", false},
		{"token", textLike(tokenPattern, "${env:ANN_SHA256}", "${file:/etc/belljar/ann.sha256}"), "Where the SHA-256 of the person's token is kept.", true},
	},
}

var tenantLimitShape = tenantLimits.shape("tenant-limit", "How much a tenant may send, all its sessions together.")

var testShape = &shape{
	name: "test", doc: "A call and what it must get.",
	keys: []key{
		{"bash", aText("git log && git push -f"), "The command of a call to Bash.", false},
		{"call", callShape.ref(), "A call of any tool.", false},
		{"as", aText(), "The tenant whose call it is.", false},
		{"profile", aText(), "The profile that the call asks for.", false},
		{"now", textLike("^[0-9]{4}-[0-9]{2}-[0-9]{2}T", "2026-11-22T14:30:00+01:00"), "The time of the call, for conditions.", false},
		{"want", aWord(Deny.String(), Ask.String(), Allow.String()), "What the call must get.", true},
		{"rule", aText(), "The rule that must have decided, or default.", false},
	},
	also: func(f *form) { f.OneOf = []*form{has("bash", nil), has("call", nil)} },
}

var callShape = &shape{
	name: "call", doc: "A call of a tool, as the policy sees it.",
	keys: []key{
		{"tool", toolName(), "The name of the tool.", true},
		{"command", aText(), "The script that it runs.", false},
		{"path", someTexts(aText("/workspace/plot.png")), "Files that it names, as the box sees them.", false},
		{"url", someTexts(aText("https://go.dev/")), "URLs that it names.", false},
		{"host", someTexts(aText("go.dev")), "Hosts that it names.", false},
		{"act", oneOrMore(actShape.ref(), maxTexts), "What it does with a browser.", false},
		{"args", func() *form { return &form{Type: "object"} }, "Its arguments, for conditions.", false},
		{"upstream", aText(), "The server that a proxied tool belongs to.", false},
		{"annotations", annotationsShape.ref(), "What the tool states about itself.", false},
	},
}

var actShape = &shape{
	name: "act", doc: "One thing that a call does with a browser.",
	keys: []key{
		{"kind", aWord(actWords()...), "What it does.", true},
		{"on", aText("https://shop.example/cart"), "The URL of the document in which it happens.", false},
		{"to", aText("https://shop.example/pay"), "The URL that it leads to, or that a file came from.", false},
		{"method", aText("POST"), "The method of the request that a link or a form sends.", false},
		{"field", aText("password"), "What is filled in: text, password, otp, card or file.", false},
		{"secret", aText(), "The name of the secret that is typed.", false},
		{"path", aText("/workspace/report.csv"), "The file that is read or written.", false},
	},
}
