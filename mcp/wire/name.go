package wire

// The headers of the protocol over HTTP, in the form of the keys of an http.Header.
const (
	SessionHeader  = "Mcp-Session-Id"
	RevisionHeader = "Mcp-Protocol-Version"
	MethodHeader   = "Mcp-Method"
	NameHeader     = "Mcp-Name"
	LastHeader     = "Last-Event-Id"
)

// The members of _meta by which the modern era says who is at the ends of a connection, and
// what they can do.
const (
	RevisionKey     = "io.modelcontextprotocol/protocolVersion"
	ClientKey       = "io.modelcontextprotocol/clientInfo"
	CapabilitiesKey = "io.modelcontextprotocol/clientCapabilities"
	ServerKey       = "io.modelcontextprotocol/serverInfo"
	LevelKey        = "io.modelcontextprotocol/logLevel" // of the log messages that are wanted during a request
)
