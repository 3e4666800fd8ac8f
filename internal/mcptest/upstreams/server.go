package upstreams

import (
	"encoding/json"
	"fmt"
)

// Server describes an MCP server. It can be encoded in JSON, the form in which a process
// gets it.
type Server struct {
	Name         string // name in serverInfo; "upstream" if empty
	Instructions string
	Tools        []Tool // tools of the server; nil for only the tool echo
	Changed      []Tool // tools that are listed after the act Change
	// Results are JSON results by method. They replace the server's own results.
	Results map[string]json.RawMessage
	// Modern makes the server answer server/discover, and requests of the revision
	// 2026-07-28. It offers no subscriptions.
	Modern  bool
	Framing Framing
	Rules   []Rule // rules; the first that applies to a message is used
	// Mark is in the arguments of the server's process, and of each process that it starts.
	// A test finds the processes by the mark (testenv.Sleeping).
	Mark string
}

// Framing is the way in which the messages of a server are separated.
type Framing string

// The ways of framing.
const (
	Lines         Framing = ""               // each message ends with LF, as the protocol requires
	CRLF          Framing = "CRLF"           // each message ends with CR LF
	BOM           Framing = "BOM"            // a byte order mark stands before the first message
	ContentLength Framing = "Content-Length" // headers stand before each message, as in the Language Server Protocol
)

// Moments that are not messages, for the field On of a rule.
const (
	Started = "(started)" // the time before the first message is read
	Ended   = "(ended)"   // the end of input
	Request = "(request)" // the arrival of a request with any method
)

// Rule describes the acts of a server for a message, which replace its usual answer.
type Rule struct {
	On  string // method of a request or notification, or a moment
	Has string // text that the message must contain
	Nth int    // the rule applies only to the Nth message that On and Has match; 0 means to each
	Do  []Act
}

// On returns a rule for each message with a method: the server performs only these acts.
// Without acts, it does not answer.
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

// Progress sends progress of the request if the client has asked for progress.
func Progress(done int) Act { return Act{Do: "progress", N: done} }

// Ask sends a request to the client. The acts after it are performed when the answer
// arrives.
func Ask(method, params string) Act { return Act{Do: "ask", Text: []byte(method), Data: raw(params)} }

// Gather waits until n messages have reached this act. The acts after it are then performed
// for each of these messages, for the last one first.
func Gather(n int) Act { return Act{Do: "gather", N: n} }

// Change makes the server list Changed from now on.
func Change() Act { return Act{Do: "change"} }

// Exit ends the server immediately with a status.
func Exit(status int) Act { return Act{Do: "exit", N: status} }

// Linger keeps the server alive, but idle, until it is killed or, in the process of a test,
// closed.
func Linger() Act { return Act{Do: "linger"} }

// Repeat performs acts n times.
func Repeat(n int, acts ...Act) Act { return Act{Do: "repeat", N: n, Acts: acts} }

// Forever performs acts again and again, in parallel to all other acts. It allows Print,
// Complain, Notify, and Repeat of these.
func Forever(acts ...Act) Act { return Act{Do: "forever", Acts: acts} }

// The acts below are for servers with their own process.

// The kinds of processes that servers start, by the names of the acts.
const (
	childSleeper = "fork"
	childSession = "setsid"
	childDaemon  = "daemonise"
	childKeeper  = "respawn"
)

// IgnoreSignals makes the server ignore SIGTERM, SIGINT and SIGHUP, and continue after the
// reader of its output is gone.
func IgnoreSignals() Act { return Act{Do: "ignore signals"} }

// Fork starts an idle process with the server's standard streams.
func Fork() Act { return Act{Do: childSleeper} }

// Setsid starts an idle process in its own session, with the server's standard streams.
func Setsid() Act { return Act{Do: childSession} }

// Daemon starts an idle process in its own session, without the server's standard streams.
// The parent of this process has ended.
func Daemon() Act { return Act{Do: childDaemon} }

// Respawn starts a process in its own session that ignores signals. This process starts an
// idle process, and another one whenever the idle process has ended.
func Respawn() Act { return Act{Do: childKeeper} }

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// check returns an error if a server cannot perform an act. process reports whether the
// server has its own process.
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

// Tool is one tool of a server, or several tools that differ only in their names.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage `json:",omitempty"` // inputSchema; nil for any object
	More        json.RawMessage `json:",omitempty"` // JSON object with further members of the definition
	Result      json.RawMessage `json:",omitempty"` // result of each call; nil for the arguments as text
	// Times is the number of times that the tool is listed, with 0, 1, 2... appended to its
	// name. Zero lists it once, with nothing appended.
	Times int `json:",omitempty"`
	// Padding is the number of bytes that are appended to Description.
	Padding int `json:",omitempty"`
	// Depth is the number of nested objects in the schema if Schema is nil.
	Depth int `json:",omitempty"`
}

// Echo is the tool of a server whose Tools is nil.
var Echo = Tool{Name: "echo", Description: "Returns its arguments"}

// Strange returns a tool for each kind of name that a gateway must not use unchanged: names
// of its own tools and of other servers' tools, empty and long names, paths, and names that
// do not look like what they are.
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
