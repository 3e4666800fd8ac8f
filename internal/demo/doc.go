// Package demo contains two small MCP servers over stdio, which `belljar demo-server`
// runs. They are for trying out a client, a proxy or a gateway. They open no port, start
// no program, and store nothing.
//
//   - Arithmetic has the tools add, multiply and Calculator. Its answers are those of a
//     published transcript of the revision 2024-11-05, byte for byte.
//   - Files has the tool read_file, and the files of one directory as resources.
//
// A Server reads one line, answers it and then reads the next line. Therefore an answer
// has the id of its request, however many requests a client sends without waiting. If a
// client does not read its answers, the server does not read from it either, so the
// server keeps at most one line.
//
//   - server.go reads messages, and knows which messages are allowed at which time.
//   - arithmetic.go and expression.go have the first server's tools, and files.go has
//     those of the second server.
package demo
