package wire

// The headers of the protocol over HTTP, in the form of the keys of an http.Header.
const (
	SessionHeader  = "Mcp-Session-Id"
	RevisionHeader = "Mcp-Protocol-Version"
	MethodHeader   = "Mcp-Method"
	NameHeader     = "Mcp-Name"
	LastHeader     = "Last-Event-Id"
)

// The members of _meta in which a message of the modern era names the programs at both ends
// of a connection and states what they can do.
const (
	RevisionKey     = "io.modelcontextprotocol/protocolVersion"
	ClientKey       = "io.modelcontextprotocol/clientInfo"
	CapabilitiesKey = "io.modelcontextprotocol/clientCapabilities"
	ServerKey       = "io.modelcontextprotocol/serverInfo"
	// lowest level of the log messages that are wanted during a request
	LevelKey = "io.modelcontextprotocol/logLevel"
)
