package toolkit

import (
	"path"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/template"
)

// Provenance is how much a file differs from the template that it resembles most.
type Provenance struct {
	File     string `json:"file" jsonschema:"path from project_path"`
	Template string `json:"template" jsonschema:"the most similar template; the file has at least half of its lines"`
	Kept     int    `json:"kept_lines" jsonschema:"lines of the template that the file has"`
	Missing  int    `json:"missing_lines" jsonschema:"lines of the template that it does not have"`
	Added    int    `json:"added_lines" jsonschema:"lines that the template does not have"`
}

// provenance compares the files at the top of the project with the templates for files of
// these names. It asks the server whether it may open each file.
func (r *reading) provenance() ([]Provenance, error) {
	made := map[string]bool{}
	for _, t := range template.List("", "") {
		made[t.Path] = true
	}
	var names, paths []string
	for _, e := range r.tree.Entries {
		if made[e.Path] {
			names, paths = append(names, e.Path), append(paths, path.Join(r.within, e.Path))
		}
	}
	if len(names) == 0 {
		r.lacks(code.Gap{Field: "template_provenance", Reason: "no file has a name that a template uses"})
		return nil, nil
	}
	denied, err := r.ask(paths)
	if err != nil {
		return nil, err
	}
	for _, i := range denied {
		if i >= 0 && i < len(names) {
			names[i] = ""
		}
	}
	var all []Provenance
	in := code.NewReader(r.root)
	defer in.Close()
	for _, name := range names {
		if name == "" {
			continue
		}
		text, gap := in.Read(name)
		if gap != nil {
			r.lacks(*gap)
			continue
		}
		d, like, err := template.Compare(name, text)
		if err != nil {
			return nil, err
		}
		if like {
			all = append(all, Provenance{name, d.Template, d.Kept, d.Missing, d.Added})
		}
	}
	if len(all) == 0 {
		r.lacks(code.Gap{Field: "template_provenance", Reason: "no file has half of the lines of a template"})
	}
	return all, nil
}
