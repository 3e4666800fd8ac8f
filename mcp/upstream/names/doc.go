// Package names decides by which names clients see and call the tools of other people's
// servers, and to which tool a name leads. Package upstream builds a Table whenever what is
// served changes, lists what the table lists, and calls what the table finds.
//
// A tool has one primary name, which is the name in lists:
//
//	mcp_<prefix>_<tool>
//
// in which every character but A to Z, a to z, 0 to 9, _ and - has become _. Clients may also
// call it as
//
//	mcp:<prefix>.<tool>
//	mcp__<prefix>__<tool>
//	<tool>
//
// and by the primary names that it had before. A name is looked up in the table as it
// arrives. It is never taken apart: a tool may be named "a.b", a prefix may be "x:y", and
// where one ends and the other begins cannot be read out of the text.
//
// The rules of the table:
//
//   - The names of our own tools belong to our own tools, in upper and lower case.
//   - A primary name leads to one tool. Where two tools would have the same one, both get
//     digits of a digest behind it, and nobody has the name without digits.
//   - Any other name that several tools would answer to is refused with their primary names.
//   - A name longer than the budget is cut, and ends in digits of the digest.
//   - The digest is of the server's name and the tool's name. So names depend on neither the
//     order of servers and tools nor on the time.
//   - A name that says which server is meant stays free while that server is in the configuration
//     and its tool is away.
//   - A tool that the filter of its server hides is not in the table, which serves lists and
//     calls alike.
//
// A server chooses the names of its tools, so it can make the name of another server's tool
// ambiguous. It cannot take that name over. A tool does not escape a rule about a name that it
// lost in this way: the field Shared of the tool lists such names for the policy.
//
//   - table.go builds a table, and finds and lists in it.
//   - filter.go says which tools of a server are in it.
//   - names.go makes the names of one tool.
//
// The package is pure: it reads no file, no clock and no network.
package names
