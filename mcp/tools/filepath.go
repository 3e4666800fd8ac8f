package tools

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// The paths of files are completed in the session's box, where files are read too,
// and only where the policy would let `ls` show the directory without asking anybody.

// pathsMost bounds the names that one completion looks at.
const pathsMost = 1000

// pathScript prints the names of a directory that begin with the text behind the
// last slash; readScript takes its path in the same way. Hidden names are printed
// only where that text begins with a dot, which is how a shell completes too.
var pathScript = fmt.Sprintf(`d=$(realpath -- "${%[1]s%%/*}/") || exit %[2]d
case $d/ in %[3]s/*) ;; *) exit %[4]d ;; esac
cd -- "$d" || exit %[2]d
n=0
for f in "${%[1]s##*/}"*; do
  if [ -d "$f" ]; then printf '%%s/\0' "$f"; elif [ -e "$f" ] || [ -L "$f" ]; then printf '%%s\0' "$f"; fi
  n=$((n + 1))
  [ "$n" -lt %[5]d ] || break
done`, pathVariable, exitNone, sandbox.WorkspaceDir, exitOutside, pathsMost)

// pathFacts are the facts of the command that would show the same.
func pathFacts(variable, typed string) (policies.Facts, bool) {
	dir, _ := path.Split(typed)
	if _, err := parseFile(filesRoot + dir); err != nil || variable != "path" || path.IsAbs(typed) || strings.ContainsAny(dir, "%?#") {
		return policies.Facts{}, false
	}
	return policies.Facts{Tool: "Bash", Command: "ls -- " + quoteWord(sandbox.WorkspaceDir+"/"+dir)}, true
}

// complete returns the paths that begin with what was typed. Names with a
// character that has a meaning in an address are left out: the variable's value goes
// into an address as it is (RFC 6570, section 3.2.3).
func (f *files) complete(ctx context.Context, call mcp.Call, _, typed string) ([]string, error) {
	text, code, err := f.inside(ctx, call, pathScript, sandbox.WorkspaceDir+"/"+typed)
	if err != nil || code != 0 {
		return nil, err
	}
	dir, _ := path.Split(typed)
	var values []string
	for name := range strings.SplitSeq(string(text), "\x00") {
		if name != "" && name != "./" && name != "../" && utf8.ValidString(name) && !strings.ContainsAny(name, "%?#") {
			values = append(values, dir+name)
		}
	}
	return values, nil
}
