// Package names decides by which names clients see and call the tools of other people's
// servers, and to which tool a name leads. Package upstream builds a Table whenever the
// served tools change, lists the tools that the table lists, and calls the tool that the
// table finds.
//
// A tool has one primary name, which is the name in lists:
//
//	mcp_<prefix>_<tool>
//
// in which every character except A to Z, a to z, 0 to 9, _ and - has become _. Clients may also
// call it as
//
//	mcp:<prefix>.<tool>
//	mcp__<prefix>__<tool>
//	<tool>
//
// and by the primary names that it had before. A name is looked up in the table as it
// arrives. It is never split: a tool may be named "a.b", a prefix may be "x:y", and the
// text does not show where the prefix ends and the tool's name begins.
//
// The rules of the table:
//
//   - The names of our own tools belong to our own tools, in upper and lower case.
//   - A primary name leads to one tool. If two tools would have the same primary name, digits
//     of a digest are appended to both, and no tool has the name without digits.
//   - Any other name that fits several tools is refused with an error that lists their
//     primary names.
//   - A name longer than the budget is cut, and ends in digits of the digest.
//   - The digest is of the server's name and the tool's name. So names depend neither on the
//     order of servers and tools nor on the time.
//   - A name that says which server is meant stays free while that server is in the
//     configuration and its tool is not served.
//   - A tool that the filter of its server hides is not in the table, which serves lists and
//     calls alike.
//
// A server chooses the names of its tools, so it can make the name of another server's tool
// ambiguous. It cannot take that name over. A tool does not escape a rule about a name that
// it lost in this way: the field Shared of the tool lists such names for the policy.
//
//   - table.go builds a table, and finds and lists in it.
//   - filter.go says which tools of a server are in it.
//   - names.go makes the names of one tool.
//
// The package is pure: it reads no file, no clock and no network.
package names
