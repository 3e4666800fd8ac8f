package console

import (
	"context"
	"slices"
	"sort"
	"time"

	"belljar.dev/policies/audit"
)

// Bounds of what is looked for in the log about one approval.
const (
	maxTrail = 50 // records
	maxCalls = 4  // that asked, or that the yes was used for
)

// listTrail lists the records of a question and of its calls, the newest first: asked,
// answered, used, and what became of the calls. The list says so where it has not all of them.
func listTrail(r *request) (any, error) {
	a, err := r.views.People.Approval(r.context(), r.named("id"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.context(), searchMost)
	defer cancel()
	page := records{Records: []record{}}
	calls := []string{a.CallID}
	find := func(want audit.Search, is func(audit.Entry) (mine, last bool)) error {
		found := false // the first record of what is looked for
		_, more, err := audit.ReadBack(ctx, r.views.AuditDir, audit.Cursor{}, want, func(e audit.Entry, at audit.Cursor) bool {
			mine, last := is(e)
			if mine && r.views.scope.Sees(e.Tenant) {
				page.Records = append(page.Records, brief(e, at))
			}
			found = last
			return !last && len(page.Records) < maxTrail
		})
		page.More = page.More || more && !found
		return err
	}
	err = find(audit.Search{Filter: audit.Filter{Kind: audit.KindApproval}, Text: a.ID}, func(e audit.Entry) (mine, last bool) {
		switch {
		case slices.Contains(calls, e.CallID):
		case len(calls) < maxCalls:
			calls = append(calls, e.CallID)
		default:
			page.More = true
		}
		return true, e.Event == "asked"
	})
	for _, call := range calls {
		if err != nil {
			return nil, err
		}
		err = find(audit.Search{Text: call}, func(e audit.Entry) (mine, last bool) {
			mine = e.CallID == call
			return mine && e.Kind != audit.KindApproval, mine && e.Kind == audit.KindDecision
		})
	}
	sort.Slice(page.Records, func(i, j int) bool { return page.Records[i].Seq > page.Records[j].Seq })
	page.Chain = r.console.chain.state(time.Now())
	return page, err
}
