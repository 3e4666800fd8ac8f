// Package skills finds workflows that people wrote down for agents: folders with
// a SKILL.md, which begins with a name and a description.
//
// A [Catalog] looks into several sources in order of priority: the workspace, the
// user's own folder, further ones, and what is built in. [Catalog.Text] lists
// them for an agent, in the same bytes as long as nothing changed; [Catalog.Open]
// reads one, and [Body.Expand] puts arguments in.
//
// A source's skills are trusted only if its Trusted is set. It must not be set for a
// folder that an agent can write: then the descriptions from that folder do not
// appear in any list that an agent takes for its operator's word, and its texts are
// marked as the workspace's. No link leads out of a folder, and no file is read
// beyond its bound.
package skills
