package policies

var ruleShape = &shape{
	name: "rule", doc: "What the policy decides about the calls that match.",
	keys: []key{
		{"id", textLike(namePattern, "no-force-push"), "The name of the rule, which refusals and logs show. Unique.", true},
		{"match", matchShape.ref(), "What a call must look like. Every key that is written must match.", true},
		{"unless", unlessShape.ref(), "An exception: the rule does not apply to a part that all of this matches.", false},
		{"decision", aWord(Deny.String(), Ask.String(), Allow.String()), "What the call gets. Of all rules that match, the strictest wins.", true},
		{"unsure", aWord("ask", "pass"), "For a rule that refuses: the verdict on a part that may match the rule, because not all that the part does is known. With pass the rule does not apply to it. Without it: ask.", false},
		{"reason", aReason(), "The reason, which the agent reads.", false},
		{"instead", aReason(), "What the agent may do instead.", false},
		{"profile", aText(), "The profile that an allow grants. Without it: the one that the call asks for.", false},
		{"when", aText("args.wait_ms <= 10000"), "A condition in CEL. The rule applies only if it is true.", false},
		{"mode", aWord(modes...), "Whether the rule decides, warns the agent, or is only recorded. Without it: enforce.", false},
		{"limit", limitShape.ref(), "How many calls the rule lets through.", false},
		{"obligations", obligationsShape.ref(), "What is done with a call that passes.", false},
		{"remember", aRemember(), "For a rule that asks: how much an approval may cover.", false},
		{"audit", aWord(auditLevels...), "How much the audit log keeps of the calls that match.", false},
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
	name: "match", doc: "What a call must look like. Each key is one text, or a list in which one text must match.",
	keys: []key{
		{"tool", someTexts(toolName()), "The name of the tool. * is any characters.", false},
		{"command", someTexts(aText("git {status,log,diff} **", "**")), "A command of the script, word by word. * is any characters of a word, ** any number of words.", false},
		{"path", someTexts(textLike(`^(/|[*][*]$|[*][*]/)`, "/workspace/**", "**/.env")), "A path that the call names, as the box sees it. ** is any number of segments.", false},
		{"url", someTexts(textLike(`^[^:]+://[^?#@]*/[^?#@]*$`, "https://pkg.go.dev/**")), "A URL that the call names. Without a port it is the scheme's own.", false},
		{"host", someTexts(textLike(`^([*]|([*][.])?[^*/\s]+)$`, "pkg.go.dev", "*.readthedocs.io")), "A host that the call names, by itself or in a URL.", false},
		{"act", someTexts(aWord(actWords()...)), "What a call does with a browser. With it, url is what the act leads to, and path its file; every key that is written must match the same act.", false},
		{"on", someTexts(textLike(`^[^:]+://[^?#@]*/[^?#@]*$`, "https://shop.example/**")), "With act: the document in which it happens, written like a url.", false},
		{"flags", someTexts(aText("--oneline", "-n")), "With command: the only options that the command may have.", false},
		{"any_flag", someTexts(aText("-f", "--force*")), "With command: the command has at least one of these options. For rules that refuse.", false},
		{"env", someTexts(aText("CI", "LC_*")), "With command: the only variables that may be set for it.", false},
		{"profile", someTexts(aText()), "The profile that the call asks for, or the default one.", false},
		{"upstream", someTexts(aText()), "The server that a proxied tool belongs to.", false},
		{"annotations", someOf(annotationsShape), "What the tool states about itself.", false},
	},
	also: func(f *form) {
		f.MinProperties = 1
		f.DependentRequired = map[string][]string{"flags": {"command"}, "any_flag": {"command"}, "env": {"command"}, "on": {"act"}}
		f.AllOf = append(f.AllOf, &form{AnyOf: []*form{lacks("act"), lacks("command", "host")}})
	},
}

// unlessShape is the shape of unless, an exception from a match.
var unlessShape = func() *shape {
	s := matchShape.without("unless", "Calls to which the rule does not apply.", "tool")
	s.also = func(f *form) { f.MinProperties = 1 }
	return s
}()

// annotationsShape is the shape of annotations: what tools say about themselves.
var annotationsShape = func() *shape {
	s := &shape{name: "annotations", doc: "What a tool states about itself."}
	docs := map[string]string{
		"destructiveHint": "The tool may destroy something. A tool without this hint counts as one that may.",
		"idempotentHint":  "A second call of the tool changes nothing more.",
		"openWorldHint":   "The tool reaches beyond the server. A tool without this hint counts as one that does.",
		"readOnlyHint":    "The tool changes nothing.",
	}
	for _, name := range names(hints) {
		s.keys = append(s.keys, key{name, aTruth(), docs[name], false})
	}
	return s
}()

var limitShape = &shape{
	name: "limit", doc: "How many calls a rule lets through, of one tenant.",
	keys: []key{
		{"calls", aRate(), "Calls in a period of time.", false},
		{"concurrent", aCount(maxConcurrent), "Calls that run at the same time.", false},
	},
	also: func(f *form) { f.MinProperties = 1 },
}

var obligationsShape = &shape{
	name: "obligations", doc: "What is done with a call that passes.",
	keys: []key{
		{"redact", someTexts(aWord(redactions...)), "What is taken out of the result before the agent gets it.", false},
		{"limit", limitShape.ref(), "The same as limit of the rule, which may be written in only one of the two places.", false},
	},
	also: func(f *form) { f.MinProperties = 1 },
}
