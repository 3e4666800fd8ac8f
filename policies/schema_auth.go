package policies

var (
	authShape = &shape{
		name: "auth", doc: "How clients over HTTP log in without the token of a tenant.",
		keys: []key{
			{"issuers", aList(issuerShape.ref(), maxIssuers), "Authorization servers whose access tokens (JWT) are accepted.", false},
			{"scopes", byName(scopePattern, scopeShape.ref(), maxScopes), "What a token with a scope may be used for, by name; the narrowest first, since a client is told the first that is enough. Scopes only narrow what the tenant may do.", false},
		},
	}
	issuerShape = &shape{
		name: "issuer", doc: "An authorization server whose access tokens are accepted.",
		keys: []key{
			{"url", textLike("^https://", "https://login.example.com/realms/team"), "Its URL, exactly as its tokens write it.", true},
			{"audience", someTexts(aText("https://belljar.example.com/mcp")), "What its tokens must name as their audience; of a list, one is enough. Without it: the address of this server.", false},
			{"keys", textLike("^https://", "https://login.example.com/realms/team/certs"), "The URL of its keys. Without it: the one that its metadata name.", false},
			{"algorithms", someTexts(aWord(Algorithms...)), "How its tokens may be signed. Without it: RS256, PS256, ES256 and EdDSA.", false},
			{"types", someTexts(aWord(TypeAccess, TypeJWT)), "What its tokens may name as their type. Without it: at+jwt. A token without a type is accepted.", false},
			{"addresses", someTexts(aText("10.20.0.0/16")), "Addresses that are not public, which its hosts may have.", false},
			{"tenant", aText(), "The tenant of all its tokens.", false},
			{"tenant_of", tenantOfShape.ref(), "The claim that says which tenant a token belongs to.", false},
			{"tenant_when", aFullList(tenantWhenShape.ref(), maxTenantWhens), "Conditions that say which tenant a token belongs to. The first that is true counts.", false},
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
		name: "tenant-when", doc: "A condition and the tenant of the tokens for which it is true.",
		keys: []key{
			{"when", aText(`claims.org == "acme" && "dev" in claims.groups`), "The condition, in CEL, about the variable claims.", true},
			{"tenant", aText(), "The tenant.", true},
		},
	}
	scopeShape = &shape{
		name: "scope", doc: "What a token with the scope may be used for.",
		keys: []key{
			{"tools", someTexts(toolName()), "The tools, with * for any characters.", true},
			{"profiles", aList(aText(), maxProfiles), "Profiles that its calls may have in addition to the tenant's default profile.", false},
		},
	}
)
