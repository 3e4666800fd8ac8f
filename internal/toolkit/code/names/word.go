package names

import (
	"strings"
	"unicode"
)

// split returns the words of a name in lower case: parseHTTPRequest, parse_http_request and
// parse-http-request each have three. Digits belong to the word before them.
func split(name string) []string {
	var words []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end()
			continue
		case i == 0:
		case unicode.IsUpper(r) && !unicode.IsUpper(runes[i-1]):
			end()
		case unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			end() // the last capital of an acronym begins a word
		}
		word.WriteRune(unicode.ToLower(r))
	}
	end()
	return words
}

// spellOut returns the word that an abbreviation stands for, and the singular of a plural.
func spellOut(word string) string {
	if long := abbreviated(word); long != "" {
		return long
	}
	if stem, ok := strings.CutSuffix(word, "ies"); ok && len(stem) > 2 {
		return stem + "y"
	}
	if n := len(word); n > 3 && word[n-1] == 's' && word[n-2] != 's' && word[n-2] != 'u' && word[n-2] != 'i' {
		word = word[:n-1]
		if long := abbreviated(word); long != "" {
			return long
		}
	}
	return word
}

// abbreviated returns the word that an abbreviation stands for, or "" if the word is not an
// abbreviation.
func abbreviated(word string) string {
	switch word {
	case "acc":
		return "account"
	case "addr":
		return "address"
	case "alloc":
		return "allocate"
	case "arg":
		return "argument"
	case "arr":
		return "array"
	case "attr":
		return "attribute"
	case "avg":
		return "average"
	case "bool":
		return "boolean"
	case "btn":
		return "button"
	case "buf":
		return "buffer"
	case "calc":
		return "calculate"
	case "cb":
		return "callback"
	case "cert":
		return "certificate"
	case "cfg", "conf", "config":
		return "configuration"
	case "char", "chr":
		return "character"
	case "chk":
		return "check"
	case "cmd":
		return "command"
	case "cnt":
		return "count"
	case "col":
		return "column"
	case "cond":
		return "condition"
	case "conn":
		return "connection"
	case "ctl", "ctrl":
		return "control"
	case "ctx":
		return "context"
	case "cur", "curr":
		return "current"
	case "db":
		return "database"
	case "decl":
		return "declaration"
	case "def":
		return "definition"
	case "del", "rm":
		return "delete"
	case "desc":
		return "description"
	case "dest", "dst":
		return "destination"
	case "dev":
		return "device"
	case "diff":
		return "difference"
	case "dir":
		return "directory"
	case "doc":
		return "document"
	case "el", "elem", "elt":
		return "element"
	case "env":
		return "environment"
	case "err":
		return "error"
	case "evt", "ev":
		return "event"
	case "exec":
		return "execute"
	case "expr":
		return "expression"
	case "ext":
		return "extension"
	case "fmt":
		return "format"
	case "fn", "func":
		return "function"
	case "gen":
		return "generate"
	case "grp":
		return "group"
	case "hdr":
		return "header"
	case "ident":
		return "identifier"
	case "idx":
		return "index"
	case "img":
		return "image"
	case "info":
		return "information"
	case "init":
		return "initialize"
	case "int":
		return "integer"
	case "len":
		return "length"
	case "lib":
		return "library"
	case "loc":
		return "location"
	case "max":
		return "maximum"
	case "mgr":
		return "manager"
	case "min":
		return "minimum"
	case "msg":
		return "message"
	case "num", "nr":
		return "number"
	case "obj":
		return "object"
	case "op":
		return "operation"
	case "opt":
		return "option"
	case "param":
		return "parameter"
	case "pkg":
		return "package"
	case "pos":
		return "position"
	case "prev":
		return "previous"
	case "proc":
		return "process"
	case "prop":
		return "property"
	case "ptr":
		return "pointer"
	case "pwd", "passwd":
		return "password"
	case "qry":
		return "query"
	case "rand":
		return "random"
	case "recv", "rcv":
		return "receive"
	case "ref":
		return "reference"
	case "repo":
		return "repository"
	case "req":
		return "request"
	case "res", "resp", "rsp":
		return "response"
	case "ret":
		return "return"
	case "seq":
		return "sequence"
	case "sess":
		return "session"
	case "spec":
		return "specification"
	case "src":
		return "source"
	case "srv":
		return "server"
	case "stmt":
		return "statement"
	case "str":
		return "string"
	case "svc":
		return "service"
	case "sym":
		return "symbol"
	case "sync":
		return "synchronize"
	case "sys":
		return "system"
	case "tbl":
		return "table"
	case "temp", "tmp":
		return "temporary"
	case "tx", "txn":
		return "transaction"
	case "usr":
		return "user"
	case "util":
		return "utility"
	case "val":
		return "value"
	case "var":
		return "variable"
	case "vec":
		return "vector"
	case "ver":
		return "version"
	case "win":
		return "window"
	}
	return ""
}
