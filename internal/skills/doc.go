// Package skills finds workflows that are written down for agents, also by agents. A
// workflow is a folder with a SKILL.md, which begins with a name and a description.
//
// A [Catalog] reads several sources in order of priority: the workspace, the user's own
// folder, further folders, and the built-in skills. [Catalog.Text] lists the skills for an
// agent, in the same bytes as long as nothing changes. [Catalog.Open] reads a skill, and
// [Body.Expand] puts arguments into it.
//
// A source's skills are trusted only if its Trusted is set. It must not be set for a folder
// that an agent can write. The descriptions from an untrusted folder do not appear in any
// list that an agent takes for its operator's word, and its texts are marked as texts of
// the workspace. No link leads out of a folder, and no file is read beyond its bound.
package skills
