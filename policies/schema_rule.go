package policies

var ruleShape = &shape{
	name: "rule", doc: "What is said to the calls that it matches.",
	keys: []key{
		{"id", textLike(namePattern, "no-force-push"), "Its name, which refusals and logs have. Unique.", true},
		{"match", matchShape.ref(), "What a call must look like. All that is named must fit.", true},
		{"unless", unlessShape.ref(), "The rule does not hold where all of this fits.", false},
		{"decision", aWord(Deny.String(), Ask.String(), Allow.String()), "What the call gets. Of all rules that match, the strictest wins.", true},
		{"unsure", aWord("ask", "pass"), "Of a rule that refuses: the verdict on a part that may match the rule, because not all that the part does is known. With pass the rule says nothing to it. Without it: ask.", false},
		{"reason", aReason(), "Why, for the agent.", false},
		{"instead", aReason(), "What the agent may do instead.", false},
		{"profile", aText(), "The profile that an allow grants. Without it: the one that the call asks for.", false},
		{"when", aText("args.wait_ms <= 10000"), "A condition in CEL, without which the rule does not hold.", false},
		{"mode", aWord(modes...), "Whether it decides, warns the agent, or is only written down. Without it: enforce.", false},
		{"limit", limitShape.ref(), "How many calls it lets through.", false},
		{"obligations", obligationsShape.ref(), "What a call that passes is bound to.", false},
		{"remember", aRemember(), "Of a rule that asks: for how much an approval may be given.", false},
		{"audit", aWord(auditLevels...), "How much the audit log keeps of its calls.", false},
	},
	also: func(f *form) {
		f.AllOf = append(
			f.AllOf,
			whenForm(has("decision", Allow.String()), lacks("unsure", "remember")),
			whenForm(has("decision", Ask.String()), lacks("profile")),
			whenForm(has("decision", Deny.String()), lacks("profile", "remember", "limit")),
			whenForm(has("audit", AuditNone.String()), has("decision", Allow.String())),
		)
	},
}

// someOf returns the form of a mapping of a shape that has at least one key.
func someOf(s *shape) value {
	return func() *form {
		f := s.ref()()
		f.MinProperties = 1
		return f
	}
}

func aReason() value {
	return func() *form {
		f := aText()()
		f.MaxLength = maxSaid
		return f
	}
}

// matchShape is the shape of match.
var matchShape = &shape{
	name: "match", doc: "What a call must look like. Each key is one text, or a list that has one text that fits.",
	keys: []key{
		{"tool", someTexts(toolName()), "The name of the tool. * is any characters.", false},
		{"command", someTexts(aText("git {status,log,diff} **", "**")), "A command of the script, word by word. * is any characters of a word, ** any number of words.", false},
		{"path", someTexts(textLike(`^(/|[*][*]$|[*][*]/)`, "/workspace/**", "**/.env")), "A path that the call names, as the box sees it. ** is any number of segments.", false},
		{"url", someTexts(textLike(`^[^:]+://[^?#@]*/[^?#@]*$`, "https://pkg.go.dev/**")), "A URL that the call names. Without a port it is the scheme's own.", false},
		{"host", someTexts(textLike(`^([*]|([*][.])?[^*/\s]+)$`, "pkg.go.dev", "*.readthedocs.io")), "A host that the call names, by itself or in a URL.", false},
		{"act", someTexts(aWord(actWords()...)), "What a call does with a browser. With it, url is what the act leads to, and path its file; all that is named must fit one act.", false},
		{"on", someTexts(textLike(`^[^:]+://[^?#@]*/[^?#@]*$`, "https://shop.example/**")), "With act: the document in which it happens, written like a url.", false},
		{"flags", someTexts(aText("--oneline", "-n")), "With command: the only options that the command may have.", false},
		{"any_flag", someTexts(aText("-f", "--force*")), "With command: the command has at least one of these options. For rules that refuse.", false},
		{"env", someTexts(aText("CI", "LC_*")), "With command: the only variables that may be set for it.", false},
		{"profile", someTexts(aText()), "The profile that the call asks for, or the default one.", false},
		{"upstream", someTexts(aText()), "The server that a proxied tool belongs to.", false},
		{"annotations", someOf(annotationsShape), "What the tool says of itself.", false},
	},
	also: func(f *form) {
		f.MinProperties = 1
		f.DependentRequired = map[string][]string{"flags": {"command"}, "any_flag": {"command"}, "env": {"command"}, "on": {"act"}}
		f.AllOf = append(f.AllOf, &form{AnyOf: []*form{lacks("act"), lacks("command", "host")}})
	},
}

// unlessShape is the shape of unless, an exception from a match.
var unlessShape = func() *shape {
	s := matchShape.without("unless", "Where the rule does not hold.", "tool")
	s.also = func(f *form) { f.MinProperties = 1 }
	return s
}()

// annotationsShape is the shape of annotations: what tools say about themselves.
var annotationsShape = func() *shape {
	s := &shape{name: "annotations", doc: "What a tool says of itself."}
	docs := map[string]string{
		"destructiveHint": "It may destroy something. So is a tool that does not say.",
		"idempotentHint":  "A second call changes nothing more.",
		"openWorldHint":   "It reaches beyond the server. So is a tool that does not say.",
		"readOnlyHint":    "It changes nothing.",
	}
	for _, name := range names(hints) {
		s.keys = append(s.keys, key{name, aTruth(), docs[name], false})
	}
	return s
}()

var limitShape = &shape{
	name: "limit", doc: "How many calls a rule lets through, of one tenant.",
	keys: []key{
		{"calls", aRate(), "Calls in a time.", false},
		{"concurrent", aCount(maxConcurrent), "Calls that run at once.", false},
	},
	also: func(f *form) { f.MinProperties = 1 },
}

var obligationsShape = &shape{
	name: "obligations", doc: "What a call that passes is bound to.",
	keys: []key{
		{"redact", someTexts(aWord(redactions...)), "What is taken out of the result before the agent gets it.", false},
		{"limit", limitShape.ref(), "As that of the rule, and only in one of the two places.", false},
	},
	also: func(f *form) { f.MinProperties = 1 },
}
