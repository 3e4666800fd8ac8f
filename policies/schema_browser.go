package policies

// browserShape is the shape of browser in a profile if it is a mapping.
var browserShape = func() *shape {
	s := &shape{
		name: "browser", doc: "Whether pages may be loaded in a Chrome, and what agents may do with it.",
		keys: []key{
			{"walls", aWord(browserWords...), "Where the Chrome runs, as in the short form.", true},
			{"act", aTruth(), "Agents may click, type and save in a Chrome of their session, as far as the rules about acts let them. Without it: false.", false},
			{"eval", aWord(evals...), "Which expressions may be evaluated in a page: none, or those that change nothing. Without it: read.", false},
			{"open", aWord(opens...), "Which addresses may be opened by name: those that a page has shown and those without query and fragment, or any. Without it: seen.", false},
			{"sites", aWord(sites...), "Where a tab may go while it shows a document in which a secret was typed: to the same site, or anywhere. Without it: one.", false},
		},
	}
	s.keys = append(s.keys, actLimits.shape("", "").keys...)
	s.keys = append(s.keys, key{"secrets", aFullList(fieldSecretShape.ref(), maxFieldSecrets), "Secrets that may be typed into fields. The agent never sees the values.", false})
	s.also = func(f *form) {
		var only []string
		for _, k := range s.keys {
			if k.name != "walls" && k.name != "act" {
				only = append(only, k.name)
			}
		}
		f.AllOf = append(
			f.AllOf,
			&form{AnyOf: []*form{has("act", true), lacks(only...)}},
			whenForm(has("act", true), &form{Not: has("walls", BrowserOff.String())}),
		)
	}
	return s
}()

var fieldSecretShape = &shape{
	name: "field-secret", doc: "A secret, for fields of one origin.",
	keys: []key{
		{"secret", aText(), "The name of the secret under secrets.", true},
		{"origin", textLike(`^[hH][tT][tT][pP][sS]?://[^/?#@\s]+$`, "https://shop.example"), "Scheme, host and port of the document that has the field.", true},
		{"field", aWord(secretFields...), "The kind that the field must have.", true},
		{"embedded", aTruth(), "The field may also be in a frame whose ancestors are of other origins. Without it: false.", false},
	},
}
