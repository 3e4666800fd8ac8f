package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"belljar.dev/browser/act"
	"belljar.dev/policies"
)

// browserStep is one step of a call of Browser.
type browserStep struct {
	Do       string `json:"do"`
	Ref      int    `json:"ref,omitempty" jsonschema:"number of a control, from BrowserLook"`
	XY       []int  `json:"xy,omitempty" jsonschema:"point of the last picture, in place of ref"`
	To       []int  `json:"to,omitempty" jsonschema:"for drag: [ref] or [x,y]"`
	URL      string `json:"url,omitempty"`
	Text     string `json:"text,omitempty" jsonschema:"what to fill, select or wait for; press: a key, such as Enter; scroll: up, down, top or end; eval: an expression; switch, close: a tab"`
	Secret   string `json:"secret,omitempty" jsonschema:"for fill: name of a secret, in place of text"`
	Clear    bool   `json:"clear,omitempty" jsonschema:"overwrite the file"`
	Path     string `json:"path,omitempty" jsonschema:"file for upload, save and pdf"`
	Download string `json:"download,omitempty" jsonschema:"such as d1"`
	Accept   *bool  `json:"accept,omitempty" jsonschema:"for dialog; for check: false removes the check mark"`
	Button   string `json:"button,omitempty" jsonschema:"right, middle or double"`
	MS       int    `json:"ms,omitempty" jsonschema:"for wait: milliseconds"`
}

// browserInput is the arguments of Browser.
type browserInput struct {
	Tab   string        `json:"tab,omitempty" jsonschema:"such as t1"`
	Steps []browserStep `json:"steps"`
	Then  string        `json:"then,omitempty" jsonschema:"what to show: changes, page, picture or nothing"`
}

// Facts returns the facts of a call that no browser has prepared: the policy denies it.
func (browserInput) Facts() policies.Facts { return policies.Facts{Acts: []policies.Act{{}}} }

// thens contains the values of then; the first is the default.
var thens = []string{"changes", "page", "picture", "nothing"}

// check refuses invalid arguments before anything runs.
func (in browserInput) check() error {
	switch {
	case len(in.Steps) == 0:
		return errors.New(`steps: the list is empty; nothing was done; send at least one step, for example {"do":"open","url":"https://example.org/"}`)
	case len(in.Steps) > act.MaxSteps:
		return fmt.Errorf("steps: got %d, want at most %d; nothing was done; send the rest in another call", len(in.Steps), act.MaxSteps)
	case in.Then != "" && !slices.Contains(thens, in.Then):
		return fmt.Errorf("then: got %q, want %s; nothing was done", policies.Clip(in.Then, 40), strings.Join(thens, ", "))
	}
	for i, s := range in.Steps {
		if _, err := s.step(); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
	}
	return nil
}

// step returns the step in the form of package act.
func (s browserStep) step() (act.Step, error) {
	to := act.Step{
		Do: act.Verb(s.Do), Ref: s.Ref, URL: s.URL, Text: s.Text, Secret: s.Secret, Clear: s.Clear, Path: s.Path,
		Download: s.Download, Accept: s.Accept, Button: s.Button, MS: s.MS,
	}
	switch len(s.XY) {
	case 0:
	case 2:
		to.XY = &act.Point{X: s.XY[0], Y: s.XY[1]}
	default:
		return to, errors.New("xy: want two numbers, [x,y]; nothing was done; take the point from the last picture")
	}
	switch len(s.To) {
	case 0:
	case 1:
		to.To = s.To[0]
	case 2:
		to.ToXY = &act.Point{X: s.To[0], Y: s.To[1]}
	default:
		return to, errors.New("to: want [ref] or [x,y]; nothing was done; take it from the last look")
	}
	if to.Do == act.DoUpload || to.Do == act.DoSave || to.Do == act.DoPDF {
		if !strings.HasPrefix(s.Path, "/") {
			return to, fmt.Errorf("path: got %q, want an absolute path as the sandbox sees it; nothing was done; write, for example, /workspace/downloads/report.pdf", policies.Clip(s.Path, 200))
		}
	}
	return to, to.Check()
}

// alone returns the arguments of a call with only this step. The policy, a person and the
// audit log see these.
func (s browserStep) alone(tab string) map[string]any {
	args := make(map[string]any)
	if text, err := json.Marshal(browserInput{Tab: tab, Steps: []browserStep{s}}); err == nil {
		_ = json.Unmarshal(text, &args) // cannot fail: the text was just marshalled
	}
	return args
}

// kindsOf returns the kinds of act that each verb can be. A verb is not offered if none of
// its kinds can pass.
var kindsOf = sync.OnceValue(func() map[act.Verb][]policies.ActKind {
	return map[act.Verb][]policies.ActKind{
		act.DoOpen:    {policies.ActNavigate},
		act.DoBack:    {policies.ActNavigate},
		act.DoForward: {policies.ActNavigate},
		act.DoReload:  {policies.ActNavigate, policies.ActSubmit},
		act.DoClick:   {policies.ActFollow, policies.ActSubmit, policies.ActDownload, policies.ActPress},
		act.DoHover:   {policies.ActPoint},
		act.DoFill:    {policies.ActType, policies.ActSecret},
		act.DoPress:   {policies.ActPress, policies.ActSubmit},
		act.DoSelect:  {policies.ActType},
		act.DoCheck:   {policies.ActType},
		act.DoScroll:  {policies.ActPoint},
		act.DoDrag:    {policies.ActPress},
		act.DoUpload:  {policies.ActUpload},
		act.DoSave:    {policies.ActSave},
		act.DoPDF:     {policies.ActSave},
		act.DoWait:    {policies.ActPoint},
		act.DoDialog:  {policies.ActConfirm, policies.ActPoint},
		act.DoEval:    {policies.ActEval},
		act.DoSwitch:  {policies.ActPoint},
		act.DoClose:   {policies.ActPoint},
	}
})

// offered returns the verbs with at least one kind that can pass.
func offered(kinds []policies.ActKind) []string {
	var all []string
	for _, v := range act.Verbs() {
		if slices.ContainsFunc(kindsOf()[v], func(k policies.ActKind) bool { return slices.Contains(kinds, k) }) {
			all = append(all, string(v))
		}
	}
	return all
}
