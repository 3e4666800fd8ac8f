// Package skill finds workflows that people wrote down for agents: folders with
// a SKILL.md, which begins with a name and a description.
//
// A [Catalog] looks into several sources in order of priority: the workspace, the
// user's own folder, further ones, and what is built in. [Catalog.Text] lists
// them for an agent, in the same bytes as long as nothing changed; [Catalog.Open]
// reads one, and [Body.Expand] puts arguments in.
//
// What a source says is believed only as far as its Trusted says. A folder that
// an agent can write must not have it: its descriptions then stand in no list that
// an agent takes for its operator's word, and what it says is marked as the
// workspace's. No folder is left by a link, and no file is read beyond its bound.
package skill
