package policies

var (
	upstreamsShape = &shape{
		name: "upstreams", doc: "Other people's MCP servers, whose tools clients see as belljar's own.",
		keys: []key{
			{"from", someTexts(aText("./mcp.json")), "Files that say which servers there are, in the form of Claude Desktop, VS Code, Codex and others.", false},
			{"wait", aTime("2s"), "How long a list waits for servers that are starting. Without it: 2s.", false},
			{"defaults", upstreamShape.ref(), "What applies to each server whose own entry does not say otherwise.", false},
			{"servers", byName(`\S`, upstreamShape.ref(), maxUpstreams), "What applies to one server, by the name that it has in its file.", false},
		},
	}
	upstreamShape = &shape{
		name: "upstream", doc: "How a server runs, and what clients see of it.",
		keys: []key{
			{"profile", either(aText(), upstreamProfileShape.ref()), "The profile of its box: the name of a profile, or the keys of a profile of its own. Without it: the system's directories, no workspace, no network, 512MiB, one CPU, 128 processes.", false},
			{"install", netShape.ref(), "What may leave the box in which npx, uvx and the like fetch the server, with the keys of net of a profile. Without it: the public registries of npm and PyPI can be reached.", false},
			{"pin", aWord(pins...), "Which of its tools clients get: those that were imported, those that a person approved, those that the server had at first, or all. Without it: tofu, which is the third.", false},
			{"share", aWord(shares...), "Whose calls one running server serves: those of a session, of a principal, or of a tenant. Without it: principal.", false},
			{"start", aWord("lazy", "eager"), "Whether it is started at its first use, or when a session begins. Without it: lazy.", false},
			{"keep", aTruth(), "The server is not stopped when it is idle.", false},
			{"timeout", upstreamTimeoutShape.ref(), "How long the server may take.", false},
			{"secrets", byName(namePattern, aWord(secretPlaces...), maxSecretHeaders), "Secrets that its entry may name as ${secret:NAME}, and where each is put: into requests at the door, or into its environment.", false},
			{"tools", upstreamToolsShape.ref(), "Which of its tools clients may use.", false},
			{"facts", someFacts, "How rules read the arguments of its tools, by the name of the tool with * for any characters.", false},
			{"safety", aWord("on", "off"), "Whether people are asked about its calls and hooks see them. What is denied stays denied. Without it: on.", false},
			{"limit", limitShape.ref(), "How many calls of one tenant the server gets.", false},
			{"expose", aWord("list", "search"), "Whether its tools are listed, or found by a search. Without it: list.", false},
			{"sampling", aTruth(), "The server may ask the model of the client whose call runs (sampling/createMessage).", false},
			{"roots", aTruth(), "The server may list the directories of its box (roots/list).", false},
		},
	}
	// upstreamProfileShape is a profile without the keys that are only for agents.
	upstreamProfileShape = profileShape.without("upstream-profile", "What the box of a server contains and may use.", "publish", "audit", "exec", "read", "browser")

	upstreamTimeoutShape = upstreamTimeouts.shape("upstream-timeout", "How long a server may take.")

	upstreamToolsShape = &shape{
		name: "upstream-tools", doc: "Which tools of a server clients may use, by the names that the server gives them.",
		keys: []key{
			{"allow", someTexts(aText("browser_*")), "The only tools that clients may use, with * for any characters and ? for one. Without it: all.", false},
			{"deny", someTexts(aText("*_evaluate")), "Tools that clients may not use, whatever allow says.", false},
		},
	}
)

// someFacts returns the form of facts.
func someFacts() *form {
	of := func() *form {
		return &form{Type: "object", mappingForm: mappingForm{
			PropertyNames: &form{Pattern: pointerPattern}, Additional: aWord(factKinds...)(), MaxProperties: maxFactPointers,
		}}
	}
	return byName(`\S`, of, maxToolFacts)()
}

// pointerPattern matches a JSON pointer (RFC 6901).
const pointerPattern = `^(/([^/~]|~[01])*)*$`
