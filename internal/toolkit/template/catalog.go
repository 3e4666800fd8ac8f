package template

// Template is a template without its text.
type Template struct {
	URI         URI
	Name        string
	Description string
	MIME        string // type of the generated file
	Path        string // path of the generated file in the project
	Parameters  []Parameter
}

// MIME types of generated files.
const (
	mimeMakefile = "text/x-makefile"
	mimeMarkdown = "text/markdown"
	mimePlain    = "text/plain"
)

// Patterns of texts. None allows a line break, a control or direction character, or a
// character with which Make, a shell, HTML or Markdown begins something other than text.
const (
	namePattern     = `^[A-Za-z][A-Za-z0-9_-]{0,63}$`
	sentencePattern = `^[\p{L}\p{N}][\p{L}\p{M}\p{N} .,:()'&+!?/-]{0,199}$`
	licensePattern  = `^[A-Za-z0-9][A-Za-z0-9.+-]{0,63}( (AND|OR|WITH) [A-Za-z0-9][A-Za-z0-9.+-]{0,63}){0,3}$`
	commandPattern  = `^[A-Za-z0-9][A-Za-z0-9 .,:=@+_/-]{0,99}$`
	entryPattern    = `^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(/[A-Za-z0-9_][A-Za-z0-9_-]{0,63}){0,7}\.(ts|tsx|js|jsx|mts|mjs)$`
	packagePattern  = `^\.(/[A-Za-z0-9_][A-Za-z0-9_-]{0,63}){0,7}$`
	modulePattern   = `^[a-z0-9][a-z0-9-]{0,63}(\.[a-z0-9][a-z0-9-]{0,63}){1,7}(/[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(\.[A-Za-z0-9_-]{1,16}){0,4}){1,7}$`
)

// all returns the templates, by URI.
func all() []Template {
	rust, deno, python, golang := "Rust", "Deno", "Python (uv)", "Go"
	return []Template{
		{
			URI: URI{"agents", "any", "default"}, Name: "Notes for agents", MIME: mimeMarkdown, Path: "AGENTS.md",
			Description: "AGENTS.md with the commands and rules of a project, for coding agents",
			Parameters: []Parameter{
				projectName(), description(), hasTests(),
				command("build", "make build", "command that builds the project"),
				command("test", "make test", "command that runs the tests"),
				command("lint", "make lint", "command that runs the linter"),
				command("format", "make fmt", "command that formats the source"),
			},
		},
		gitignore("deno", deno), gitignore("go", golang), gitignore("python-uv", python), gitignore("rust", rust),
		makefile("deno", deno, entry()), makefile("go", golang, goPackage()), makefile("python-uv", python), makefile("rust", rust),
		readme("deno", deno, entry()), readme("go", golang, goPackage(), module()), readme("python-uv", python), readme("rust", rust),
	}
}

func makefile(toolchain, language string, more ...Parameter) Template {
	return Template{
		URI: URI{"makefile", toolchain, "cli"}, Name: language + " CLI Makefile", MIME: mimeMakefile, Path: "Makefile",
		Description: "Professional Makefile template for " + language + " CLI projects",
		Parameters:  append([]Parameter{projectName(), hasTests()}, more...),
	}
}

func readme(toolchain, language string, more ...Parameter) Template {
	return Template{
		URI: URI{"readme", toolchain, "cli"}, Name: language + " CLI README", MIME: mimeMarkdown, Path: "README.md",
		Description: "README template for " + language + " CLI projects: install, use, develop",
		Parameters:  append([]Parameter{projectName(), description(), license(), hasTests()}, more...),
	}
}

func gitignore(toolchain, language string) Template {
	return Template{
		URI: URI{"gitignore", toolchain, "cli"}, Name: language + " CLI .gitignore", MIME: mimePlain, Path: ".gitignore",
		Description: "Gitignore template for " + language + " CLI projects",
		Parameters: []Parameter{
			{Name: "project_name", Type: String, Default: "", Pattern: namePattern, Description: "name of the program"},
			{Name: "env_files", Type: Boolean, Default: true, Description: "leave out .env files, which hold secrets"},
			{Name: "editors", Type: Boolean, Default: false, Description: "leave out files of editors and desktops"},
		},
	}
}

func projectName() Parameter {
	return Parameter{Name: "project_name", Type: String, Required: true, Pattern: namePattern, Description: "name of the project and of its program", Example: "example"}
}

func description() Parameter {
	return Parameter{Name: "description", Type: String, Default: "", Pattern: sentencePattern, Description: "what the project does, in one line"}
}

func license() Parameter {
	return Parameter{Name: "license", Type: String, Default: "MIT", Pattern: licensePattern, Description: "license of the project (SPDX)"}
}

func hasTests() Parameter {
	return Parameter{Name: "has_tests", Type: Boolean, Default: true, Description: "the project has tests"}
}

func command(name, value, what string) Parameter {
	return Parameter{Name: name, Type: String, Default: value, Pattern: commandPattern, Description: what}
}

func entry() Parameter {
	return Parameter{Name: "entry", Type: String, Default: "main.ts", Pattern: entryPattern, Description: "the module that Deno runs"}
}

func goPackage() Parameter {
	return Parameter{Name: "package", Type: String, Default: ".", Pattern: packagePattern, Description: "path of the package main, below the root of the module"}
}

func module() Parameter {
	return Parameter{Name: "module", Type: String, Default: "", Pattern: modulePattern, Description: "path of the Go module; without it the README describes how to install from the source"}
}
