package upstreams

import (
	"encoding/json"
	"fmt"
)

// Server is an MCP server as data. It survives JSON, by which a process gets it.
type Server struct {
	Name         string // of serverInfo; "upstream" if empty
	Instructions string
	Tools        []Tool // nil for one tool, echo
	Changed      []Tool // what is listed after the act Change
	// Results are results of methods, in JSON, in place of those that the server has.
	Results map[string]json.RawMessage
	// Modern has the server answer server/discover, and requests of the revision
	// 2026-07-28. It has no subscriptions.
	Modern  bool
	Framing Framing
	Rules   []Rule // the first that applies to a message is used
	// Mark is in the arguments of the server's process and of each that it starts, so that
	// a test finds them (testenv.Sleeping).
	Mark string
}

// Framing is how the messages of a server are set off from each other.
type Framing string

// The ways of framing.
const (
	Lines         Framing = ""               // each ends with LF, as the protocol has it
	CRLF          Framing = "CRLF"           // each ends with CR LF
	BOM           Framing = "BOM"            // the first has a byte order mark before it
	ContentLength Framing = "Content-Length" // headers before each, as in the Language Server Protocol
)

// Moments that are not messages, for the field On of a rule.
const (
	Started = "(started)" // before the first message is read
	Ended   = "(ended)"   // at the end of input
	Request = "(request)" // each request, whatever its method
)

// Rule says what a server does when a message comes, in place of answering it.
type Rule struct {
	On  string // the method of a request or notification, or a moment
	Has string // a text that the message must contain
	Nth int    // only the message that is the Nth to which On and Has apply; 0 for each
	Do  []Act
}

// On returns a rule for each message with a method: the server does the acts and nothing
// else, so that without an act it does not answer.
func On(method string, acts ...Act) []Rule { return []Rule{{On: method, Do: acts}} }

// Act is one thing that a server does. The functions below return them.
type Act struct {
	Do   string
	Text []byte          `json:",omitempty"`
	Data json.RawMessage `json:",omitempty"`
	N    int             `json:",omitempty"`
	Acts []Act           `json:",omitempty"`
}

// Answer answers the request as the server without rules would.
func Answer() Act { return Act{Do: "answer"} }

// AnswerAs is Answer with another id, in JSON.
func AnswerAs(id string) Act { return Act{Do: "answer", Data: json.RawMessage(id)} }

// AnswerWith answers the request with a result, in JSON.
func AnswerWith(result string) Act { return Act{Do: "result", Data: json.RawMessage(result)} }

// Fail answers the request with an error.
func Fail(code int, text string) Act { return Act{Do: "fail", N: code, Text: []byte(text)} }

// FailWith is Fail with the data of the error, in JSON.
func FailWith(code int, text, data string) Act {
	return Act{Do: "fail", N: code, Text: []byte(text), Data: raw(data)}
}

// Print writes a text to standard output as it is, without any framing.
func Print(text string) Act { return Act{Do: "print", Text: []byte(text)} }

// Complain writes a text to standard error.
func Complain(text string) Act { return Act{Do: "complain", Text: []byte(text)} }

// Notify sends a notification. params are JSON; "" for none.
func Notify(method, params string) Act {
	return Act{Do: "notify", Text: []byte(method), Data: raw(params)}
}

// Progress sends progress of the request, if the client has asked for it.
func Progress(done int) Act { return Act{Do: "progress", N: done} }

// Ask sends a request to the client. The acts after it are done when its answer is there.
func Ask(method, params string) Act { return Act{Do: "ask", Text: []byte(method), Data: raw(params)} }

// Gather waits until n messages have come as far as this. The acts after it are then done
// for each of them, for the last one first.
func Gather(n int) Act { return Act{Do: "gather", N: n} }

// Change has the server list Changed from now on.
func Change() Act { return Act{Do: "change"} }

// Exit ends the server at once with a status.
func Exit(status int) Act { return Act{Do: "exit", N: status} }

// Linger keeps the server alive, which does nothing any more, until it is killed or, in
// the process of a test, closed.
func Linger() Act { return Act{Do: "linger"} }

// Repeat does acts n times.
func Repeat(n int, acts ...Act) Act { return Act{Do: "repeat", N: n, Acts: acts} }

// Forever does acts again and again beside all else: Print, Complain and Notify.
func Forever(acts ...Act) Act { return Act{Do: "forever", Acts: acts} }

// The acts below are for servers that are processes of their own.

// The kinds of processes that servers start, by the names of the acts.
const (
	childSleeper = "fork"
	childSession = "setsid"
	childDaemon  = "daemonise"
	childKeeper  = "respawn"
)

// IgnoreSignals has the server ignore SIGTERM, SIGINT and SIGHUP, and go on after the
// reader of its output has gone.
func IgnoreSignals() Act { return Act{Do: "ignore signals"} }

// Fork starts a process that does nothing, with the server's standard streams.
func Fork() Act { return Act{Do: childSleeper} }

// Setsid starts such a process in a session of its own.
func Setsid() Act { return Act{Do: childSession} }

// Daemon starts one in a session of its own, without the server's streams, whose parent
// has ended.
func Daemon() Act { return Act{Do: childDaemon} }

// Respawn starts a process in a session of its own that ignores signals, and that starts
// another one whenever that has ended.
func Respawn() Act { return Act{Do: childKeeper} }

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// check reports what cannot be done by a server, or not in the process of a test.
func (s Server) check(process bool) error {
	for _, r := range s.Rules {
		if err := checkActs(r.Do, process, false); err != nil {
			return fmt.Errorf("rule on %s: %w", r.On, err)
		}
	}
	return nil
}

func checkActs(acts []Act, process, beside bool) error {
	for _, a := range acts {
		switch a.Do {
		case "print", "complain", "notify":
			continue
		case childSleeper, childSession, childDaemon, childKeeper, "ignore signals":
			if !process {
				return fmt.Errorf("%s needs a process", a.Do)
			}
		case "repeat", "forever":
			if err := checkActs(a.Acts, process, beside || a.Do == "forever"); err != nil {
				return err
			}
			if a.Do == "repeat" {
				continue
			}
		}
		if beside {
			return fmt.Errorf("%s cannot be done forever", a.Do)
		}
	}
	return nil
}

// Tool is one tool of a server, or many that differ in their names.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage `json:",omitempty"` // inputSchema; nil for any object
	More        json.RawMessage `json:",omitempty"` // an object whose members the definition has too
	Result      json.RawMessage `json:",omitempty"` // of each call; nil for the arguments as text
	// Times has the tool listed so often, with 0, 1, 2... behind its name; 0 for once, and
	// nothing behind its name.
	Times int `json:",omitempty"`
	// Padding is how many bytes longer than Description the description is.
	Padding int `json:",omitempty"`
	// Depth is how many objects the schema nests, if Schema is nil.
	Depth int `json:",omitempty"`
}

// Echo is the tool of a server that names none.
var Echo = Tool{Name: "echo", Description: "Returns its arguments"}

// Strange returns a tool for each name that a gateway must not take as it is: names of its
// own tools and of others', names that are empty, long, paths, or not what they seem.
func Strange() []Tool {
	long := make([]byte, 500)
	for i := range long {
		long[i] = 'n'
	}
	names := []string{
		"Bash", "mcp_x_y", "mcp__x__y", "mcp:x.y", "a.b", "", string(long), "a\x00b", "a\nb", "../x", "a/b", " a ", "מגן", "\u202ecba", "a\u200bb", "🔔",
	}
	all := make([]Tool, len(names))
	for i, name := range names {
		all[i] = Tool{Name: name, Description: fmt.Sprintf("Strange name number %d", i)}
	}
	return all
}
