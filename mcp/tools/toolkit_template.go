package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"belljar.dev/internal/toolkit/template"
	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// templateInput is the arguments of generate_template and validate_template.
type templateInput struct {
	ResourceURI string         `json:"resource_uri" jsonschema:"template://CATEGORY/TOOLCHAIN/VARIANT"`
	Parameters  map[string]any `json:"parameters" jsonschema:"parameters by name; list_templates has those of each template"`
}

// Facts returns no facts: the policy gets the arguments anyway. Templates are part of the
// program.
func (templateInput) Facts() policies.Facts { return policies.Facts{} }

// listTemplatesInput is the arguments of list_templates.
type listTemplatesInput struct {
	Toolchain string `json:"toolchain,omitempty" jsonschema:"rust, deno, python-uv or go; default all"`
	Category  string `json:"category,omitempty" jsonschema:"makefile, readme, gitignore or agents; default all"`
}

// Facts returns no facts, for the same reason as above.
func (listTemplatesInput) Facts() policies.Facts { return policies.Facts{} }

// scaffoldInput is the arguments of scaffold_project.
type scaffoldInput struct {
	Toolchain  string         `json:"toolchain" jsonschema:"rust, deno, python-uv or go"`
	Templates  []string       `json:"templates" jsonschema:"categories or template:// URIs"`
	Parameters map[string]any `json:"parameters,omitempty" jsonschema:"parameters by name; each template takes those that it has"`
}

// Facts returns no facts, for the same reason as above.
func (scaffoldInput) Facts() policies.Facts { return policies.Facts{} }

// searchTemplatesInput is the arguments of search_templates.
type searchTemplatesInput struct {
	Query     string `json:"query" jsonschema:"words; a template must have all of them"`
	Toolchain string `json:"toolchain,omitempty" jsonschema:"default all"`
}

// Facts returns no facts, for the same reason as above.
func (searchTemplatesInput) Facts() policies.Facts { return policies.Facts{} }

// templateEntry is a template in a list. Its first four members are those of a resource.
type templateEntry struct {
	URI         string               `json:"uri"`
	Name        string               `json:"name"`
	Description string               `json:"description"`
	MIMEType    string               `json:"mimeType" jsonschema:"MIME type of the generated file"`
	Path        string               `json:"path" jsonschema:"path of that file in the project"`
	Parameters  []template.Parameter `json:"parameters"`
}

// templatesOutput is the structured result of list_templates.
type templatesOutput struct {
	Templates []templateEntry `json:"templates"`
}

// generatedOutput is the structured result of generate_template.
type generatedOutput struct {
	Content    string         `json:"content"`
	Path       string         `json:"path" jsonschema:"path of the file in the project; nothing was written"`
	MIMEType   string         `json:"mime_type"`
	Parameters map[string]any `json:"parameters" jsonschema:"parameters as used, with defaults"`
}

// validatedOutput is the structured result of validate_template.
type validatedOutput struct {
	Valid  bool             `json:"valid"`
	Errors []template.Fault `json:"errors"`
}

// scaffoldOutput is the structured result of scaffold_project.
type scaffoldOutput struct {
	Files []scaffoldFile `json:"files"`
}

type scaffoldFile struct {
	Path    string `json:"path" jsonschema:"path in the project; nothing was written"`
	Content string `json:"content"`
}

// foundTemplatesOutput is the structured result of search_templates.
type foundTemplatesOutput struct {
	Results []foundTemplate `json:"results" jsonschema:"the highest score first"`
}

type foundTemplate struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
	Score       int    `json:"score" jsonschema:"10 for a whole name; else for each word 5 in the name, 3 in the description, 1 in a parameter"`
}

// addTemplates registers the tools for templates, and the templates as resources.
func addTemplates(s *mcp.Server) {
	addToolkitTool(s, mcp.Tool{
		Name: generateTemplate, Title: "Generate a file from a template",
		Description: "Returns the text of a project file (Makefile, README, .gitignore, AGENTS.md) made from a template. It writes nothing.",
		Output:      generatedOutput{},
	}, generateFile)
	addToolkitTool(s, mcp.Tool{
		Name: listTemplates, Title: "List templates",
		Description: "Lists the templates of project files with their parameters.",
		Output:      templatesOutput{},
	}, listAllTemplates)
	addToolkitTool(s, mcp.Tool{
		Name: validateTemplate, Title: "Check parameters of a template",
		Description: "Reports whether generate_template accepts the parameters, and what is wrong with each.",
		Output:      validatedOutput{},
	}, validateParameters)
	addToolkitTool(s, mcp.Tool{
		Name: scaffoldProject, Title: "Generate the files of a project",
		Description: "Returns the texts of several project files made from templates that share parameters. It writes nothing.",
		Output:      scaffoldOutput{},
	}, scaffold)
	addToolkitTool(s, mcp.Tool{
		Name: searchTemplates, Title: "Find templates",
		Description: "Finds templates by words in their names, descriptions and parameters.",
		Output:      foundTemplatesOutput{},
	}, findTemplates)
	s.AddResource(templateResource())
}

// templateError converts an error of the templates to an error with the code of the
// client's era.
func templateError(err error) error {
	bad := &wire.Error{Text: err.Error()}
	data := map[string]any{}
	invalid, isInvalid := errors.AsType[*template.Invalid](err)
	switch {
	case errors.Is(err, template.ErrNotFound):
		bad.Kind, data["reason"] = wire.TemplateNotFound, "template_not_found"
	case errors.Is(err, template.ErrURI):
		bad.Kind, data["reason"] = wire.TemplateURI, "invalid_template_uri"
	case isInvalid:
		bad.Kind, data["reason"] = wire.TemplateParameter, "parameter_validation"
		data["errors"] = invalid.Faults
	default:
		return err
	}
	bad.Data = data
	return bad
}

func generateFile(_ context.Context, _ mcp.Call, in templateInput) (*mcp.Result, error) {
	made, err := template.Generate(in.ResourceURI, in.Parameters)
	if err != nil {
		return nil, templateError(err)
	}
	used, err := json.Marshal(made.Parameters)
	if err != nil {
		return nil, err
	}
	t := made.Template
	return &mcp.Result{
		Content:    []mcp.Content{{Text: made.Content}, {Text: fmt.Sprintf("[%s as %s, with %s; nothing was written]", t.Path, t.MIME, used)}},
		Structured: generatedOutput{made.Content, t.Path, t.MIME, made.Parameters},
	}, nil
}

// describedTemplates is the longest list that describes the parameters of its templates.
// The text for all templates would be ten times as long.
const describedTemplates = 4

func listAllTemplates(_ context.Context, _ mcp.Call, in listTemplatesInput) (*mcp.Result, error) {
	out := templatesOutput{[]templateEntry{}}
	var t text
	found := template.List(in.Toolchain, in.Category)
	for _, one := range found {
		out.Templates = append(out.Templates, templateEntry{one.URI.String(), one.Name, one.Description, one.MIME, one.Path, one.Parameters})
		if len(found) > describedTemplates {
			t.line("%s makes %s: %s", one.URI, one.Path, parameterNames(one.Parameters))
			continue
		}
		t.line("%s %s: %s. Makes %s (%s).", one.URI, one.Name, one.Description, one.Path, one.MIME)
		for _, p := range one.Parameters {
			t.line("  %s", parameterLine(p))
		}
	}
	switch n := len(found); {
	case n > describedTemplates:
		t.line("(* is required; with toolchain or category this describes the parameters)")
	case n == 0:
		t.line("No template has this toolchain and category. Toolchains: %s. Categories: %s.",
			strings.Join(template.Toolchains(), ", "), strings.Join(template.Categories(), ", "))
	}
	return &mcp.Result{Content: []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}}, Structured: out}, nil
}

// parameterNames returns the names of parameters, with a star after each required one.
func parameterNames(all []template.Parameter) string {
	names := make([]string, len(all))
	for i, p := range all {
		if names[i] = p.Name; p.Required {
			names[i] += "*"
		}
	}
	return strings.Join(names, ", ")
}

// parameterLine returns the description of a parameter in one line.
func parameterLine(p template.Parameter) string {
	line := fmt.Sprintf("%s %s", p.Name, p.Type)
	switch {
	case p.Required:
		line += fmt.Sprintf(", required, for example %v", p.Example)
	case p.Default != "":
		line += fmt.Sprintf(", default %v", p.Default)
	}
	if p.Pattern != "" {
		line += ", matches " + p.Pattern
	}
	return line + ": " + p.Description
}

func validateParameters(_ context.Context, _ mcp.Call, in templateInput) (*mcp.Result, error) {
	faults, err := template.Validate(in.ResourceURI, in.Parameters)
	if err != nil {
		return nil, templateError(err)
	}
	var t text
	if len(faults) == 0 {
		t.line("The parameters are valid.")
	}
	for _, f := range faults {
		t.line("%s", f)
	}
	return &mcp.Result{
		Content:    []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}},
		Structured: validatedOutput{len(faults) == 0, append([]template.Fault{}, faults...)},
	}, nil
}

func scaffold(_ context.Context, _ mcp.Call, in scaffoldInput) (*mcp.Result, error) {
	files, err := template.Scaffold(in.Toolchain, in.Templates, in.Parameters)
	if err != nil {
		return nil, templateError(err)
	}
	res, out := &mcp.Result{}, scaffoldOutput{}
	for _, f := range files {
		out.Files = append(out.Files, scaffoldFile{f.Template.Path, f.Content})
		res.Content = append(res.Content, mcp.Content{Text: "==> " + f.Template.Path + " <==\n" + f.Content})
	}
	res.Content = append(res.Content, mcp.Content{Text: fmt.Sprintf("[%d files; nothing was written]", len(files))})
	res.Structured = out
	return res, nil
}

func findTemplates(_ context.Context, _ mcp.Call, in searchTemplatesInput) (*mcp.Result, error) {
	found, err := template.Search(in.Query, in.Toolchain)
	if err != nil {
		return nil, templateError(err)
	}
	out := foundTemplatesOutput{[]foundTemplate{}}
	var t text
	for _, f := range found {
		out.Results = append(out.Results, foundTemplate{f.URI.String(), f.Name, f.Description, f.MIME, f.Score})
		t.line("%d %s %s: %s (%s)", f.Score, f.URI, f.Name, f.Description, f.MIME)
	}
	if len(found) == 0 {
		t.line("No template has all these words; list_templates shows all.")
	}
	return &mcp.Result{Content: []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}}, Structured: out}, nil
}

// templateResource returns the resource family of the templates. A read returns the
// generated file, made with the defaults and with the example of each required parameter;
// the MIME type is that of the file.
func templateResource() mcp.Resource {
	return mcp.Resource{
		Template: "template://{category}/{toolchain}/{variant}", Name: "templates", Title: "Templates of project files", MIME: "text/plain",
		Description: "Each template as a file, made with the defaults; generate_template takes parameters.",
		Read: func(_ context.Context, _ *mcp.Session, uri string) ([]byte, string, error) {
			made, err := template.Preview(uri)
			if err != nil {
				return nil, "", fmt.Errorf("%w: %w", mcp.ErrNotFound, err)
			}
			return []byte(made.Content), made.Template.MIME, nil
		},
		List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
			var all []mcp.Entry
			for _, t := range template.List("", "") {
				all = append(all, mcp.Entry{URI: t.URI.String(), Name: t.Name, Description: t.Description, MIME: t.MIME})
			}
			return all, nil
		},
		Complete: func(_ context.Context, _ *mcp.Session, variable, typed string) ([]string, error) {
			switch variable {
			case "category":
				return mcp.Completed(template.Categories(), typed), nil
			case "toolchain":
				return mcp.Completed(template.Toolchains(), typed), nil
			case "variant":
				return mcp.Completed(template.Variants(), typed), nil
			}
			return nil, nil
		},
	}
}
