package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"strings"

	"belljar.dev/internal/skills"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// invokeInput is the arguments of InvokeSkill.
type invokeInput struct {
	SkillName string `json:"skill_name" jsonschema:"name of a skill, or SOURCE:NAME"`
	Arguments string `json:"arguments,omitempty" jsonschema:"replaces $ARGUMENTS"`
}

// Facts returns no facts: the policy gets the arguments anyway. A skill is read, and no
// part of it is run.
func (invokeInput) Facts() policies.Facts { return policies.Facts{} }

// invokeOutput is the structured result of InvokeSkill.
type invokeOutput struct {
	Name         string            `json:"name"`
	Source       string            `json:"source"`
	Trusted      bool              `json:"trusted" jsonschema:"true if no agent can write its files"`
	Path         string            `json:"path,omitempty" jsonschema:"path of its SKILL.md in the sandbox"`
	Instructions string            `json:"instructions"`
	Resources    []skills.Resource `json:"resources,omitempty"`
	More         bool              `json:"more,omitempty" jsonschema:"true if there are more files"`
}

// searchSkillsInput is the arguments of SearchSkills.
type searchSkillsInput struct {
	Pattern string `json:"pattern,omitempty" jsonschema:"text to find; empty for all"`
	Flags   string `json:"flags,omitempty" jsonschema:"any of -i (ignore case), -E (regular expression), -w (whole words)"`
}

// Facts returns no facts: the policy gets the arguments anyway.
func (searchSkillsInput) Facts() policies.Facts { return policies.Facts{} }

// skillTools implements the tools InvokeSkill and SearchSkills.
type skillTools struct {
	server   *mcp.Server
	backends Backends
}

const invokeSkill = "InvokeSkill"

// addSkills registers the tools for skills, their resources and prompts.
func addSkills(s *mcp.Server, sk *skillTools) {
	mcp.AddTool(s, mcp.Tool{
		Name: invokeSkill, Title: "Load a skill", Description: skillsText(sk.backends.Skills),
		Brief:    "loads a [skill](docs/skills.md): a written workflow",
		ReadOnly: true, Idempotent: true, Output: invokeOutput{},
	}, sk.invoke)
	mcp.AddTool(s, mcp.Tool{
		Name: "SearchSkills", Title: "Find skills",
		Brief:       "finds skills",
		Description: "Finds skills by a pattern in their names, descriptions and instructions, including skills that InvokeSkill does not list.",
		ReadOnly:    true, Idempotent: true, Output: skills.Found{},
	}, sk.search)
	if sk.backends.Skills == nil {
		return
	}
	s.AddResource(sk.resource())
	s.AddPrompts(sk.prompts())
}

// skillsText returns the description of InvokeSkill.
func skillsText(c *skills.Catalog) string {
	text := "Loads a skill: a written workflow. The result has its instructions, names the files that belong to it, and says if agents or repositories can write it."
	if c == nil {
		return text
	}
	if list := c.Text(); list != "" {
		text += "\n" + list
	}
	return text
}

// DescribeSkills updates the description of InvokeSkill. If the list of skills has changed
// since the last call, it notifies clients.
func DescribeSkills(s *mcp.Server, c *skills.Catalog) {
	if s.Describe(invokeSkill, skillsText(c)) {
		s.PromptsChanged()
		s.ResourcesChanged()
	}
}

const noSkills = "This server was started without skills."

// invoke loads a skill.
func (sk *skillTools) invoke(_ context.Context, call mcp.Call, in invokeInput) (*mcp.Result, error) {
	if sk.backends.Skills == nil {
		return mcp.Failed(noSkills), nil
	}
	DescribeSkills(sk.server, sk.backends.Skills)
	b, err := sk.backends.Skills.Open(in.SkillName)
	if err != nil {
		said := err.Error()
		if !strings.HasSuffix(said, "?") {
			said += "."
		}
		return mcp.Failed("%s Nothing was loaded.", said), nil
	}
	text, err := b.Expand(in.Arguments)
	if err != nil {
		return mcp.Failed("skill %s: %s. Nothing was loaded.", b.Name, err), nil
	}
	sk.backends.Aside.loaded(call.Session, b.Name)
	return &mcp.Result{
		Content: []mcp.Content{{Text: b.Activated(text)}},
		Structured: invokeOutput{
			Name: b.Name, Source: b.Source, Trusted: b.Trusted, Path: b.Path, Instructions: text, Resources: b.Resources, More: b.More,
		},
	}, nil
}

// search finds skills.
func (sk *skillTools) search(ctx context.Context, _ mcp.Call, in searchSkillsInput) (*mcp.Result, error) {
	if sk.backends.Skills == nil {
		return mcp.Failed(noSkills), nil
	}
	DescribeSkills(sk.server, sk.backends.Skills)
	found, err := sk.backends.Skills.Search(ctx, in.Pattern, in.Flags)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return mcp.Failed("%s. Nothing was searched.", err), nil
	}
	text, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Content: []mcp.Content{{Text: string(text)}}, Structured: found}, nil
}

// skillScheme is the beginning of the URIs of skills.
const skillScheme = "skill://"

// resource returns the resource family of the skills and their files.
func (sk *skillTools) resource() mcp.Resource {
	return mcp.Resource{
		Template: "skill://{name}/{+path}", Name: "skills", Title: "Skills", MIME: "text/markdown",
		Description: "The files of the skills; SKILL.md has the instructions.",
		Read:        sk.read,
		List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
			var all []mcp.Entry
			for _, s := range sk.backends.Skills.All() {
				all = append(all, mcp.Entry{URI: skillScheme + s.Name + "/SKILL.md", Name: s.Name, Description: described(s), MIME: "text/markdown"})
			}
			return all, nil
		},
		Complete: func(_ context.Context, _ *mcp.Session, variable, typed string) ([]string, error) {
			var names []string
			if variable == "name" {
				for _, s := range sk.backends.Skills.All() {
					if strings.HasPrefix(s.Name, typed) {
						names = append(names, s.Name)
					}
				}
			}
			return names, nil
		},
	}
}

// described returns the description of a skill for a person. People choose the skill
// themselves, so they also see the description of an untrusted skill, with its source.
func described(s skills.Skill) string {
	if s.Trusted {
		return s.Description
	}
	return "(of the " + s.Source + ", which agents can write) " + s.Description
}

// read returns one file of a skill.
func (sk *skillTools) read(_ context.Context, _ *mcp.Session, uri string) (data []byte, kind string, err error) {
	name, file, ok := strings.Cut(strings.TrimPrefix(uri, skillScheme), "/")
	if file, err = url.PathUnescape(file); err != nil || !ok {
		return nil, "", mcp.ErrNotFound
	}
	data, err = sk.backends.Skills.File(name, file)
	switch {
	case errors.Is(err, skills.ErrUnknown), errors.Is(err, fs.ErrNotExist), errors.Is(err, skills.ErrOutside):
		return nil, "", mcp.ErrNotFound
	case err != nil:
		return nil, "", err
	}
	return data, kindOf(file, data), nil
}

// prompts returns the skills as prompts: a person chooses one in the client.
func (sk *skillTools) prompts() mcp.PromptSource {
	return mcp.PromptSource{
		List: func(context.Context, *mcp.Session) ([]mcp.Prompt, error) {
			var all []mcp.Prompt
			for _, s := range sk.backends.Skills.All() {
				all = append(all, mcp.Prompt{
					Name: s.Name, Title: s.Name, Description: described(s),
					Arguments: []mcp.Argument{{Name: "arguments", Description: "text that replaces $ARGUMENTS"}},
				})
			}
			return all, nil
		},
		Get: func(_ context.Context, s *mcp.Session, name string, args map[string]string) ([]mcp.Message, error) {
			b, err := sk.backends.Skills.Open(name)
			if errors.Is(err, skills.ErrUnknown) {
				return nil, mcp.ErrNotFound
			} else if err != nil {
				return nil, err
			}
			text, err := b.Expand(args["arguments"])
			if err != nil {
				return nil, err
			}
			sk.backends.Aside.loaded(s, b.Name)
			return []mcp.Message{{Content: mcp.Content{Text: b.Activated(text)}}}, nil
		},
	}
}
