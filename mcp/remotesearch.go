package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// An upstream with many tools need not have them in the list, whose tokens each
// conversation pays for. The list then has one tool that finds them. The tools that it
// finds are called as usual.

// Bounds of a search for tools.
const (
	searchMost  = 10       // tools whose definitions are in the result
	searchBytes = 64 << 10 // bytes of these definitions
	searchWords = 32       // words of a query that count
	searchNamed = 100      // further tools that the result only names
)

// finds is the input schema of the tool that searches.
const finds = `{"type":"object","properties":{"query":{"type":"string","description":"Words from the names or descriptions of the tools; empty for all tools"}},"required":["query"]}`

// toolSearch is the input of a call of the tool that searches.
type toolSearch struct{ query string }

// Facts returns nothing: a search touches nothing.
func (toolSearch) Facts() policies.Facts { return policies.Facts{} }

// addSearch adds the tool that finds the tools of the upstream that no list shows. hides
// reports whether a tool is hidden from a caller.
func (u *upstream) addSearch(name string, hides func(context.Context, *Session, *tool) bool) error {
	about := fmt.Sprintf("Finds tools of the server %.80q, which the list of tools does not contain. It returns their definitions. Call a tool by the name in its definition.", u.name)
	raw, err := json.Marshal(map[string]any{"description": about, "inputSchema": json.RawMessage(finds), "annotations": map[string]bool{"readOnlyHint": true}})
	if err != nil {
		return err
	}
	t, err := u.newTool(Remote{Name: name, Definition: raw}, nil, func(args json.RawMessage, depth int) (Gated, map[string]any, error) {
		in, all, err := decodeRemote(args, depth, nil)
		if err != nil {
			return in, all, err
		}
		query, ok := all["query"].(string)
		if !ok || len(all) != 1 {
			return nil, nil, &argumentError{[]string{"the arguments must have one member, query, which is a string"}}
		}
		return toolSearch{query}, all, nil
	}, func(ctx context.Context, call Call, in Gated) (*Result, error) {
		search, ok := in.(toolSearch)
		if !ok {
			return nil, fmt.Errorf("run %s with a %T", name, in)
		}
		seen := slices.DeleteFunc(slices.Clone(u.tools), func(t *tool) bool { return !t.unlisted || hides(ctx, call.Session, t) })
		return u.found(matching(seen, search.query), len(seen)), nil
	})
	if err != nil {
		return fmt.Errorf("offer tool %.80q of upstream %s: %w", name, u.name, err)
	}
	u.tools = append(u.tools, t)
	u.sort()
	return nil
}

// matching returns the tools that contain words of a query, the best match first. It
// returns all tools for a query without words.
func matching(tools []*tool, query string) []*tool {
	words := wordsOf(query)
	if len(words) == 0 {
		return tools
	}
	score := make(map[*tool]int, len(tools))
	for _, t := range tools {
		raw := t.listed(false, wire.Modern)
		name, text := strings.ToLower(t.info.Name), strings.ToLower(wire.Text(wire.Member(raw, "title"))+" "+wire.Text(wire.Member(raw, "description")))
		for _, w := range words[:min(len(words), searchWords)] {
			if strings.Contains(name, w) {
				score[t] += 3 // a name says more than a description
			}
			if strings.Contains(text, w) {
				score[t]++
			}
		}
	}
	found := slices.DeleteFunc(slices.Clone(tools), func(t *tool) bool { return score[t] == 0 })
	slices.SortStableFunc(found, func(a, b *tool) int { return score[b] - score[a] })
	return found
}

// wordsOf returns the words of a text, in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// found returns the result of a search: the tools that were found, out of all tools.
func (u *upstream) found(found []*tool, all int) *Result {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the %d tools of the server %.80q match.", len(found), all, u.name)
	shown, left := 0, searchBytes
	for ; shown < min(len(found), searchMost); shown++ {
		raw := found[shown].listed(false, wire.Modern)
		if left -= len(raw); left < 0 {
			break
		}
		b.WriteByte('\n')
		b.Write(raw)
	}
	if rest := namesOf(found[shown:]); len(rest) > 0 {
		fmt.Fprintf(&b, "\nAlso: %s", strings.Join(rest[:min(len(rest), searchNamed)], ", "))
		if more := len(rest) - searchNamed; more > 0 {
			fmt.Fprintf(&b, ", and %d more", more)
		}
		b.WriteString(". Search with other words to see their definitions.")
	}
	return &Result{Content: []Content{{Text: b.String()}}, Upstream: u.name} // the upstream wrote the definitions
}
