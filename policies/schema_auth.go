package policies

var (
	authShape = &shape{
		name: "auth", doc: "How clients over HTTP log in without the token of a tenant.",
		keys: []key{
			{"issuers", aList(issuerShape.ref(), maxIssuers), "Authorization servers whose access tokens (JWT) are accepted.", false},
			{"scopes", byName(scopePattern, scopeShape.ref(), maxScopes), "What a token with a scope may be used for, by name; the narrowest first, since a client is told the first that is enough. They take away from what the tenant may do.", false},
		},
	}
	issuerShape = &shape{
		name: "issuer", doc: "An authorization server whose access tokens are accepted.",
		keys: []key{
			{"url", textLike("^https://", "https://login.example.com/realms/team"), "As its tokens name it, letter by letter.", true},
			{"audience", someTexts(aText("https://belljar.example.com/mcp")), "What its tokens must name as their audience, or one of it. Without it: the address of this server.", false},
			{"keys", textLike("^https://", "https://login.example.com/realms/team/certs"), "Where its keys are. Without it its metadata say where.", false},
			{"algorithms", someTexts(aWord(Algorithms...)), "How its tokens may be signed. Without it: RS256, PS256, ES256 and EdDSA.", false},
			{"types", someTexts(aWord(TypeAccess, TypeJWT)), "What its tokens may name as their type. Without it: at+jwt. A token without a type is accepted.", false},
			{"addresses", someTexts(aText("10.20.0.0/16")), "Addresses that are not public at which its hosts may be.", false},
			{"tenant", aText(), "The tenant of all its tokens.", false},
			{"tenant_of", tenantOfShape.ref(), "The claim that says which tenant a token belongs to.", false},
			{"tenant_when", aFullList(tenantWhenShape.ref(), maxTenantWhens), "Conditions that say which tenant a token belongs to. The first that holds counts.", false},
		},
		also: func(f *form) {
			f.OneOf = []*form{has("tenant", nil), has("tenant_of", nil), has("tenant_when", nil)}
		},
	}
	tenantOfShape = &shape{
		name: "tenant-of", doc: "The claim that says which tenant a token belongs to.",
		keys: []key{
			{"claim", aText("org"), "The name of the claim, whose value is a text.", true},
			{"map", byName(`\S`, aText(), maxMapped), "The tenant of each value.", true},
		},
	}
	tenantWhenShape = &shape{
		name: "tenant-when", doc: "A condition and the tenant of the tokens for which it holds.",
		keys: []key{
			{"when", aText(`claims.org == "acme" && "dev" in claims.groups`), "The condition, in CEL, about the variable claims.", true},
			{"tenant", aText(), "The tenant.", true},
		},
	}
	scopeShape = &shape{
		name: "scope", doc: "What a token with the scope may be used for.",
		keys: []key{
			{"tools", someTexts(toolName()), "The tools, with * for any characters.", true},
			{"profiles", aList(aText(), maxProfiles), "Profiles that its calls may have beside the one that the tenant's calls get unasked.", false},
		},
	}
)
