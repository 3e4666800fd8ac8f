package console

import (
	"context"
	"slices"
	"sort"
	"time"

	"belljar.dev/policies/audit"
)

// Bounds of a search in the log for one approval.
const (
	maxTrail = 50 // number of records
	maxCalls = 4  // number of calls that the approval was for or that used its yes
)

// listTrail returns the records of an approval and of its calls, the newest first: asked,
// answered, used, and the outcomes of the calls. The list says if it is incomplete.
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
		found := false // whether the oldest record of the search was found
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
