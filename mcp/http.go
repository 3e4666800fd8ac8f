package mcp

import "net/http"

// Handler serves MCP over Streamable HTTP; it is to be mounted at /mcp.
func (s *Server) Handler() http.Handler { return http.NotFoundHandler() }
