package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar.dev/policies/shell"
)

// The kinds of parts of a call. Decision.Subject has the same spelling.
const (
	wholeCall = ""
	aCommand  = "command"
	aPath     = "path"
	aURL      = "URL"
	aHost     = "host"
	anAct     = "act"
)

// piece is one thing that a call does. The call gets the verdict of its
// strictest piece.
type piece struct {
	kind    string
	text    string
	start   int      // where a command begins, in bytes of the script
	end     int      // where a command ends; equal to start for any other piece
	via     []string // the programs that start a command, the outermost first
	words   []word   // words of a command or segments of a path
	loose   []word   // the same words, but a rule also finds the program by the last segment of its path
	files   [][]word // files that a command's redirections open, each as its path segments
	env     []string // variables that are set for a command
	address address
	host    Host // host of a URL, or the host itself
	act     *actPiece
	doubt   string // why the words do not say everything; empty if they do
	vague   bool   // some of the words are not known
	opaque  bool   // the piece may do more than the words say
	swayed  bool   // variables that are set for the piece may make it do more than the words say
	unread  bool   // the piece is the rest of a script that could not be read
	wrapper bool   // the piece only starts the pieces behind it
	fault   string // why no rule can judge the piece; empty if a rule can
}

// pieces takes a call apart and returns its pieces.
func pieces(f Facts) []piece {
	var all []piece
	if len(f.Paths)+len(f.URLs)+len(f.Hosts)+len(f.Acts) > maxParts {
		return []piece{{kind: wholeCall, fault: fmt.Sprintf("it names more than %d paths, URLs, hosts and acts", maxParts)}}
	}
	if why := envFault(f); why != "" {
		return []piece{{kind: wholeCall, fault: why, env: f.Env}}
	}
	if f.Exec != nil {
		all = append(all, execPiece(*f.Exec))
	}
	if f.Command != "" {
		all = commandPieces(f)
	}
	for _, s := range f.Paths {
		all = append(all, readPath(s))
	}
	var named []string
	for _, s := range f.URLs {
		a, err := readURL(s)
		pc := piece{kind: aURL, text: s, address: a}
		switch {
		case err != nil:
			pc.fault = err.Error()
		case a.vague:
			pc.doubt = "servers read its path in different ways"
		}
		pc.host, _ = ParseHost(a.host) // zero if the URL cannot be read
		named = append(named, a.host)
		all = append(all, pc)
	}
	for _, s := range f.Hosts {
		host, err := hostname(s)
		switch {
		case err != nil:
			all = append(all, piece{kind: aHost, text: s, fault: err.Error()})
		case !slices.Contains(named, host): // otherwise the host is judged with its URL
			pc := piece{kind: aHost, text: host}
			pc.host, _ = ParseHost(host)
			all = append(all, pc)
		}
	}
	for _, a := range f.Acts {
		all = append(all, readAct(a))
	}
	if len(all) == 0 {
		all = []piece{{kind: wholeCall}}
	}
	return all
}

// execPiece returns a program as a piece of a call. Rules see a program of the system that
// the box cannot write under its bare name, as in a script, and under its path. A rule that
// allows sees any other program only under its path; a rule that refuses also sees it under
// its bare name.
func execPiece(e Exec) piece {
	pc := piece{kind: aCommand, text: e.text()}
	first := word{text: e.Path}
	base := path.Base(e.Path)
	dir := strings.TrimSuffix(e.Path, base)
	if dir == "" {
		first.text = "./" + e.Path // the kernel looks for it only in the current directory
	}
	pc.words = append(pc.words, first)
	if len(e.Argv) > 1 {
		pc.words = append(pc.words, literals(e.Argv[1:])...)
	}
	if e.Cut {
		pc.words = append(pc.words, word{sure: shell.Any})
		pc.doubt, pc.vague = "it has more arguments than belljar checks", true
	}
	pc.loose = loose(pc.words)
	if e.ofSystem() {
		pc.words[0].text, pc.words[0].also = base, e.Path
	}
	return pc
}
