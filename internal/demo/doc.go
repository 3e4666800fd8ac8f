// Package demo contains two small MCP servers over stdio, which `belljar demo-server`
// runs: peers to try a client, a proxy or a gateway with. They open no port, start no
// program, and keep nothing.
//
//   - Arithmetic has the tools add, multiply and Calculator. Its answers are those of a
//     published transcript of the revision 2024-11-05, byte for byte.
//   - Files has the tool read_file, and the files of one directory as resources.
//
// A Server reads one line, answers it and reads the next. So an answer has the id of its
// request, however many of them a client sends at once; a client that does not read its
// answers is not read from either, and what the server keeps is bounded by one line.
//
//   - server.go reads messages, and knows which of them may come when.
//   - arithmetic.go and expression.go have the first server's tools, files.go those of
//     the second.
package demo
