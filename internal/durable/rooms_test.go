package durable

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/callback"
	"belljar.dev/internal/job"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/plan"
	"belljar.dev/internal/store"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// place is where the rooms keep their data: most rooms in a store, some in files of their
// own.
type place struct {
	store *store.Store
	dir   string
	power bool // whether the power was cut after the steps were reported
}

// books returns the common configuration of the books of a place.
func (p place) books() store.Config { return store.Config{Store: p.store, Place: "/p"} }

// room is a package of belljar that promises to keep the data that it has acknowledged.
type room struct {
	// write makes steps that are to be kept, one after the other, and calls say with each
	// step that is acknowledged. No step is reported twice, by any writer. write returns
	// after the first error. tag is a word that no other writer has.
	write func(ctx context.Context, at place, tag string, say func(step string)) error
	// missing returns the reported steps that cannot be found in the place. A step that was
	// made but not reported does not count as lost.
	missing func(ctx context.Context, at place, said []string) ([]string, error)
	// slow means that a writer takes long to start, and that only one at a time can use the
	// directory, because the writer has boxes. A tenth as many of its writers are killed.
	slow bool
}

// rooms are the rooms by their names in the lines of writers.
var rooms = map[string]room{
	"approval": {write: writeApprovals, missing: missingApprovals},
	"audit":    {write: writeRecords, missing: missingRecords},
	"callback": {write: writeCallbacks, missing: missingCallbacks},
	"fleet":    {write: writeMoves, missing: missingMoves, slow: true},
	"job":      {write: writeJobs, missing: missingJobs},
	"pin":      {write: writePins, missing: missingPins},
	"plan":     {write: writePlans, missing: missingPlans},
	"question": {write: writeQuestions, missing: missingQuestions},
	"state":    {write: writeNotes, missing: missingNotes},
	"todo":     {write: writeTodos, missing: missingTodos},
}

// without returns the reported steps that are not in have.
func without(said []string, have map[string]bool) (lost []string) {
	for _, step := range said {
		if !have[step] {
			lost = append(lost, step)
		}
	}
	return lost
}

// owner is the owner of the todos. The writer makes a todo, adds a step, and completes
// both.
var owner = store.Owner{Tenant: "t", Session: "s"}

func writeTodos(ctx context.Context, at place, tag string, say func(string)) error {
	b := todo.New(at.books())
	for {
		one, err := b.Create(ctx, owner, tag)
		if err != nil {
			return err
		}
		say(fmt.Sprint("todo ", one.ID))
		_, step, err := b.Add(ctx, owner, one.ID, "step")
		if err != nil {
			return err
		}
		say(fmt.Sprint("step ", step.ID))
		if _, _, err := b.SetStep(ctx, owner, one.ID, step.ID, todo.Completed); err != nil {
			return err
		}
		say(fmt.Sprint("done ", step.ID))
		if _, _, err := b.SetTodo(ctx, owner, one.ID, todo.Completed); err != nil {
			return err
		}
		say(fmt.Sprint("over ", one.ID))
	}
}

func missingTodos(ctx context.Context, at place, said []string) ([]string, error) {
	all, err := todo.New(at.books()).List(ctx, owner)
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool)
	for _, one := range all {
		have[fmt.Sprint("todo ", one.ID)] = true
		have[fmt.Sprint("over ", one.ID)] = !one.Status.Open()
		for _, s := range one.Steps {
			have[fmt.Sprint("step ", s.ID)] = true
			have[fmt.Sprint("done ", s.ID)] = s.Status == todo.Completed
		}
	}
	return without(said, have), nil
}

// plans returns a book of plans. The writer begins a plan in a session, and saves the plan,
// in the store and as a file.
func plans(at place) *plan.Book {
	cfg := plan.Config{Config: at.books(), Dir: filepath.Join(at.dir, "plans")}
	cfg.Self = "x"
	return plan.New(cfg)
}

func writePlans(ctx context.Context, at place, tag string, say func(string)) error {
	b := plans(at)
	for n := 0; ; n++ {
		// a new tenant every 100 plans, because a tenant's oldest plans are removed to make
		// room
		o := store.Owner{Tenant: fmt.Sprint(tag, n/100), Session: fmt.Sprint("s", n)}
		m, err := b.Enter(ctx, o, "g", "")
		if err != nil {
			return err
		}
		say(fmt.Sprint("enter ", o.Tenant, " ", o.Session))
		if _, err := b.Save(ctx, o, m, o.Session, o.Session); err != nil {
			return err
		}
		say(fmt.Sprint("saved ", o.Tenant, " ", o.Session))
	}
}

func missingPlans(ctx context.Context, at place, said []string) (lost []string, err error) {
	b := plans(at)
	for _, line := range said {
		step := strings.Fields(line)
		kind, o := step[0], store.Owner{Tenant: step[1], Session: step[2]}
		if kind == "enter" {
			_, err = b.Mode(ctx, o)
		} else if _, err = b.Read(ctx, o.Tenant, o.Session); err == nil {
			var text []byte
			text, err = os.ReadFile(filepath.Join(at.dir, "plans", o.Tenant, o.Session+".md"))
			if string(text) != o.Session {
				err = errors.Join(err, plan.ErrUnknown)
			}
		}
		if err != nil {
			lost = append(lost, fmt.Sprint(line, ": ", err))
		}
	}
	return lost, nil
}

// pinned returns an offer of one tool with a description. The writer has the tool trusted
// on first use, changes it, and has a person trust the change.
func pinned(text string) pin.Offer {
	return pin.Offer{Listing: &pin.Listing{Tools: []json.RawMessage{json.RawMessage(`{"name":"a","description":"` + text + `"}`)}}}
}

func writePins(ctx context.Context, at place, tag string, say func(string)) error {
	b := pin.NewBook(at.books())
	for n := 0; ; n++ {
		// a new tenant every 100 servers, because their number per tenant is bounded
		s := pin.Server{Tenant: fmt.Sprint(tag, n/100), Name: fmt.Sprint("s", n)}
		if v := b.Judge(ctx, s, pin.Rules{Mode: pin.TOFU}, pinned("one")); v.Err != nil {
			return v.Err
		}
		say(fmt.Sprint("first ", s.Tenant, " ", s.Name))
		v := b.Judge(ctx, s, pin.Rules{Mode: pin.TOFU}, pinned("two"))
		if v.Err != nil {
			return v.Err
		}
		i := slices.IndexFunc(v.Items, func(item pin.Item) bool { return item.State == pin.Changed })
		if i < 0 {
			return fmt.Errorf("no definition of %s has changed: %+v", s.Name, v.Items)
		}
		yes := pin.Decision{By: pin.Person{Name: "x", Via: pin.ViaCommand}, Trust: true, Items: []pin.Ref{{Kind: pin.KindTool, Name: "a", Digest: v.Items[i].Digest}}}
		if err := b.Decide(ctx, s, yes); err != nil {
			return err
		}
		say(fmt.Sprint("person ", s.Tenant, " ", s.Name))
	}
}

func missingPins(ctx context.Context, at place, said []string) ([]string, error) {
	b := pin.NewBook(at.books())
	have := make(map[string]bool)
	seen := make(map[string]bool)
	for _, line := range said {
		tenant := strings.Fields(line)[1]
		if seen[tenant] {
			continue
		}
		seen[tenant] = true
		pins, err := b.Export(ctx, tenant, "")
		if err != nil {
			return nil, err
		}
		for _, p := range pins {
			if p.Kind == pin.KindTool {
				have[fmt.Sprint("first ", tenant, " ", p.Server)] = true
				have[fmt.Sprint("person ", tenant, " ", p.Server)] = p.How == pin.Decided
			}
		}
	}
	return without(said, have), nil
}

// writeQuestions puts questions and answers each of them.
func writeQuestions(ctx context.Context, at place, tag string, say func(string)) error {
	d := question.New(at.books())
	for n := 0; ; n++ {
		sheet, err := question.Parse(fmt.Sprintf(`[{"text":"%s-%d?"}]`, tag, n))
		if err != nil {
			return err
		}
		a, err := d.Ask(ctx, store.Owner{Tenant: tag, Session: "s"}, sheet)
		if err != nil {
			return err
		}
		say("asked " + a.ID)
		if _, err := d.Answer(ctx, a.ID, question.Reply{State: question.Accepted, Words: map[string][]string{"q1": {"x"}}}); err != nil {
			return err
		}
		say("answered " + a.ID)
	}
}

func missingQuestions(ctx context.Context, at place, said []string) (lost []string, _ error) {
	d := question.New(at.books())
	for _, step := range said {
		kind, id, _ := strings.Cut(step, " ")
		if a, err := d.Get(ctx, id); err != nil || kind == "answered" && a.State != question.Accepted {
			lost = append(lost, fmt.Sprintf("%s: it is %q, %v", step, a.State, err))
		}
	}
	return lost, nil
}

// writeCallbacks sets eight callbacks for a tenant, then eight for the next tenant.
func writeCallbacks(ctx context.Context, at place, tag string, say func(string)) (err error) {
	b := callback.New(callback.Config{Config: at.books()})
	for n := 0; err == nil; n++ {
		tenant := fmt.Sprint(tag, n/callback.Slots)
		var c callback.Callback
		if c, err = b.Set(ctx, store.Owner{Tenant: tenant}, callback.Request{Message: "again", Delay: time.Hour, Repeat: 3}); err == nil {
			say(fmt.Sprint(tenant, " ", c.ID))
		}
	}
	return err
}

func missingCallbacks(ctx context.Context, at place, said []string) ([]string, error) {
	b := callback.New(callback.Config{Config: at.books()})
	have := make(map[string]bool)
	last := ""
	for _, step := range said {
		tenant, _, _ := strings.Cut(step, " ")
		if tenant == last {
			continue
		}
		last = tenant
		all, err := b.List(ctx, tenant)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			have[fmt.Sprint(tenant, " ", c.ID)] = c.Message == "again" && c.Left == 3
		}
	}
	return without(said, have), nil
}

// jobs returns a book of jobs. The writer opens jobs and writes their output. Every third
// job keeps running. The others end, and their calls are answered. alive says whether the
// processes of the jobs are alive: true while writers run, and false afterwards.
func jobs(at place, self string, alive bool) *job.Book {
	cfg := job.Config{Config: at.books(), Dir: filepath.Join(at.dir, "jobs")}
	cfg.Self, cfg.Alive = self, func(string) bool { return alive }
	return job.New(cfg)
}

func writeJobs(ctx context.Context, at place, tag string, say func(string)) error {
	b := jobs(at, tag, true)
	for n := 0; ; n++ {
		// a new tenant every 40 jobs, because a tenant's oldest jobs are removed to make
		// room
		o := store.Owner{Tenant: fmt.Sprint(tag, n/40), Session: "s"}
		j, err := b.Open(ctx, o, job.Job{Tool: "Bash", Command: "make", Output: fmt.Sprintf("output%sx%d", tag, n)})
		if err != nil {
			return err
		}
		about := fmt.Sprint(" ", o.Tenant, " ", j.ID, " ", j.Handle)
		say("begun" + about)
		spool, err := b.Spool(j)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("written %d\n", j.ID)
		if _, err := spool.Write([]byte(text)); err != nil {
			return errors.Join(err, spool.Close())
		}
		say("spooled" + about)
		if err := spool.Close(); err != nil {
			return err
		}
		say("wrote" + about)
		if n%3 == 2 {
			continue
		}
		if err := b.End(ctx, j, "exited", job.End{}, int64(len(text))); err != nil {
			return err
		}
		say("ended" + about)
		if err := b.Answer(ctx, j.Handle, "completed", job.Answer(fmt.Sprintf(`{"of":%d}`, j.ID))); err != nil {
			return err
		}
		say("answered" + about)
	}
}

func missingJobs(ctx context.Context, at place, said []string) (lost []string, _ error) {
	b := jobs(at, "after", false)
	for _, line := range said {
		step := strings.Fields(line)
		j, err := b.ByHandle(ctx, store.Owner{Tenant: step[1], Session: "next"}, step[3])
		ok := err == nil
		switch step[0] {
		case "begun":
			ok = ok && (j.Status == job.Lost || j.Status == "exited")
		case "spooled": // until the output is closed, only the kernel keeps it
			ok = ok && (at.power || wrote(b, j, step[2]))
		case "wrote":
			ok = ok && wrote(b, j, step[2])
		case "ended":
			ok = ok && j.Status == "exited" && j.Size == int64(len("written \n")+len(step[2]))
		case "answered":
			var a job.Answer
			a, err = b.AnswerOf(ctx, j)
			ok = ok && err == nil && string(a) == `{"of":`+step[2]+`}`
		}
		if !ok {
			lost = append(lost, fmt.Sprintf("%s: it is %q, %v", line, j.Status, err))
		}
	}
	return lost, nil
}

// wrote reports whether the output of a job is the text that the writer wrote.
func wrote(b *job.Book, j job.Job, id string) bool {
	o, err := b.Output(j)
	if err != nil {
		return false
	}
	defer o.Close()
	text, _, _, err := o.Read(0, 100)
	return err == nil && string(text) == "written "+id+"\n"
}

// policyText is the policy for approvals. The writer asks a person, who says yes or no, and
// then uses a yes.
const policyText = `version: 1
defaults:
  decision: allow
  profile: offline
  ask: {timeout: 1h, return_after: 20s}
profiles: {offline: {fs: {system: true, workspace: rw}}}
rules:
  - {id: publish, match: {tool: Bash, command: "git push **"}, decision: ask, reason: Publishing needs a person., remember: [once]}
`

func writeApprovals(ctx context.Context, at place, tag string, say func(string)) error {
	p, err := policies.Parse("policy.yaml", []byte(policyText))
	if err != nil {
		return err
	}
	d := approval.New(approval.Config{Config: at.books(), Event: func(e approval.Event) {
		if e.Kind != "expired" { // an approval expires without a step of the writer
			say(e.Kind + " " + e.Approval.ID)
		}
	}})
	for n := 0; err == nil; n++ {
		command := fmt.Sprint("git push ", n)
		f := policies.Facts{Tenant: tag, Session: "s", Tool: "Bash", Command: command, Args: map[string]any{"command": command}}
		r := approval.Request{CallID: "c", Principal: "p", Facts: f, Decision: p.Decide(f)}
		var a approval.Approval
		if a, _, err = d.Ask(ctx, r); err != nil {
			break
		}
		yes := n%3 != 0
		if _, err = d.Answer(ctx, a.ID, approval.Reply{Yes: yes, By: "me"}); err == nil && yes {
			_, err = d.Use(ctx, a.ID, r)
		}
	}
	return err
}

func missingApprovals(ctx context.Context, at place, said []string) (lost []string, err error) {
	d := approval.New(approval.Config{Config: at.books()})
	// The possible states of an approval after each step. A yes that was used must not
	// become usable again.
	after := map[string][]approval.State{
		"asked":   {approval.Pending, approval.Expired, approval.Approved, approval.Declined, approval.Used},
		"given":   {approval.Approved, approval.Expired, approval.Used},
		"refused": {approval.Declined},
		"used":    {approval.Used},
	}
	for _, step := range said {
		kind, id, _ := strings.Cut(step, " ")
		a, err := d.Get(ctx, id)
		if err != nil || !slices.Contains(after[kind], a.State) {
			lost = append(lost, fmt.Sprintf("%s: it is %q, %v", step, a.State, err))
		}
	}
	return lost, nil
}

// records opens an audit log. Two writers at a time record decisions in it, in files that
// are soon full.
func records(at place) (*audit.Log, error) {
	cfg := audit.Config{Dir: filepath.Join(at.dir, "audit"), Audit: policies.DefaultAudit(policies.AuditRequest)}
	cfg.Audit.Rotate, cfg.Audit.Keep = 16<<10, 10_000
	return audit.Open(cfg)
}

func writeRecords(ctx context.Context, at place, tag string, say func(string)) error {
	l, err := records(at)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for i := range 2 {
		go func() {
			for k := 0; ; k++ {
				d := audit.Decision{CallID: fmt.Sprint(tag, "-", i, "-", k), Tenant: "local", Tool: "Bash", Facts: audit.Facts{Command: "git status"}, Verdict: "allow"}
				if err := l.Commit(ctx, d); err != nil {
					failed <- err
					return
				}
				say(d.CallID)
			}
		}()
	}
	return <-failed
}

// missingRecords first opens the log, which cuts off an incomplete record, and then
// verifies the chain. A crash must not look as if the log had been changed.
func missingRecords(ctx context.Context, at place, said []string) ([]string, error) {
	l, err := records(at)
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(at.dir, "audit")
	have := make(map[string]bool)
	_, err = audit.Verify(ctx, dir, audit.Against{})
	if err == nil {
		err = audit.Read(ctx, dir, audit.Filter{Kind: audit.KindDecision}, func(e audit.Entry) error {
			have[e.CallID] = true
			return nil
		})
	}
	return without(said, have), err
}

// notes is a schema with one table and one row for each step. It tests the store itself.
var notes = store.Schema{Name: "notes", Steps: []string{"CREATE TABLE notes_all (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT"}}

func writeNotes(ctx context.Context, at place, tag string, say func(string)) error {
	tables := at.store.Tables(notes)
	for {
		var n int64
		err := tables.Write(ctx, func(tx *sql.Tx) error {
			r, err := tx.ExecContext(ctx, "INSERT INTO notes_all (text) VALUES (?)", tag)
			if err == nil {
				n, err = r.LastInsertId()
			}
			return err
		})
		if err != nil {
			return err
		}
		say(fmt.Sprint(n))
	}
}

func missingNotes(ctx context.Context, at place, said []string) ([]string, error) {
	have := make(map[string]bool)
	err := at.store.Tables(notes).Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT n FROM notes_all")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int64
			if err := rows.Scan(&n); err != nil {
				return err
			}
			have[fmt.Sprint(n)] = true
		}
		return rows.Err()
	})
	return without(said, have), err
}
