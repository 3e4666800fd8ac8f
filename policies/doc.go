// Package policies decides what an agent's call may do.
//
// A policy is a YAML file. [Parse] reads it and reports all faults together;
// [Policy.Decide] answers one call, described by [Facts], with a [Decision]: the
// strictest verdict of all rules that match any part of the call, and, if it is
// allow, the [Grant], without which no package does the work.
//
// The package does no I/O and reads no clock: a decision is a pure function of the policy
// and the facts. Callers pass in the text of a policy, the functions that read the
// further files it names and resolve directories ([Files]), and the time of a call (Facts.Now).
//
// The files, each calling only those below it:
//
//	lint.go                what the author of a policy hardly intended
//	lint_dead.go           rules that decide nothing
//	lint_text.go           denials that only look at text
//	lint_open.go           rules that open more than their reader sees
//	lint_use.go            rules that no test or call speaks about
//	lint_cover.go          whether a match contains another
//	lint_risk.go           programs, variables and hosts that are known to open more
//	lint_find.go           notes a finding at its place
//
//	schema.go              the JSON Schema of a policy
//	schema_policy.go       the keys of a policy and a layer
//	schema_profile.go      the keys of a profile
//	schema_browser.go      the keys of a profile's browser
//	schema_rule.go         the keys of a rule
//	schema_auth.go         the keys of auth
//	schema_upstream.go     the keys of upstreams
//
//	bundled.go             the policies that are part of the program
//	bundled_tree.go        the nodes of the default policy, generated
//
//	parse.go               a policy, with the files that it names
//	parse_stack.go         which further files are in force
//	parse_layer.go         a layer, which is a further file
//	parse_tests.go         the tests that a policy carries
//	parse_console.go       who may use the console
//	parse_tenant.go        tenants
//	parse_auth.go          who clients over HTTP are
//	parse_upstream.go      upstream servers
//	parse_audit.go         the audit log
//	parse_totals.go        what a tenant's boxes may use together
//	parse_extends.go       what a profile takes over from another
//	parse_profile.go       a profile
//	parse_browser.go       a profile's browser
//	parse_net.go           a profile's network
//	parse_secret.go        secrets, and the headers that carry them
//	parse_target.go        hosts, ports and requests of network rules
//	parse_rule.go          a rule
//	parse_terms.go         a rule's limit and obligations
//	parse_when.go          a rule's condition
//	parse_ask.go           how a person is asked
//
//	decide_explain.go      a decision, part by part
//	decide_openness.go     how much the rules let through of each tool
//	decide_redirect.go     decides about a URL that a page leads to
//	decide_document.go     decides about a document that a browser asks for
//	decide_exec.go         decides about a program that a command starts
//	decide.go              decides about a call
//	decide_acting.go       refuses a call in whose profile no browser acts
//	decide_scope.go        refuses a call that the scopes of a token do not allow
//	decide_layer.go        narrows a decision by a layer
//	decide_tenant.go       which profile a tenant's call gets
//	decide_grant.go        what a profile grants under the layers
//	decide_rules.go        what the rules of one file say
//	decide_terms.go        the obligations of a decision
//	decide_mode.go         rules that are not enforced
//	decide_inquiry.go      a call while it is decided; conditions
//	decide_index.go        which rules may speak about a part
//	decide_match.go        whether a match speaks about a part
//	decide_pieces.go       takes a call apart
//	decide_act.go          an act of a browser, and matches of it
//	decide_path.go         a path, and patterns of it
//	decide_script.go       takes a script apart
//	decide_upstream.go     the facts of calls of upstream tools
//	decide_weburl.go       the URLs that browsers read in texts
//	act.go                 what a browser does
//	decide_rate.go         refuses a call beyond a rule's limit
//	decide_egress.go       decides about a connection or a request
//	decide_egressmatch.go  the matches of network rules
//	decide_url.go          the matches of URLs
//	decide_glob.go         the patterns of all matches
//
//	policy.go, layer.go, tenant.go, auth.go, provider.go, upstream.go, rule.go,
//	terms.go
//	                       what was parsed
//	facts.go, scene.go, exec.go
//	                       what a call shows the policy
//	refusal.go, block.go, decision.go, mode.go
//	                       what the policy answers
//	acting.go, browser.go, grant.go, reading.go, profile.go, channel.go, audit.go, secret.go
//	                       what the policy grants
//	host.go                a host
//	args.go                the arguments of tools
//	args_tools.go          the tools and their arguments, generated
//	limits.go              the limits of a box
//
//	parse_value.go         numbers, sizes, times
//	parse_node.go          texts, lists, mappings
//	schema_shape.go        describes such values for the schema
//	parse_fault.go         the faults, and what was probably meant
//	text.go                texts that people and agents read
package policies
