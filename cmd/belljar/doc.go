// Command belljar lets an agent use a shell without being able to hurt the
// machine that the shell runs on. It is an MCP server whose tools work in
// sandboxes that contain only what a policy grants.
//
// A command is a file, or a few that begin with its name. The files, each calling those
// below it:
//
//	main.go                         the tree of the commands
//	completion.go, man.go           completion in a shell; manual pages
//
//	a server, and calls without one
//	  work.go, front.go             work and front, of a fleet
//	  serve.go, notify.go           serve
//	  webhook.go
//	  suite_conformance.go          what the protocol's conformance suite calls by name;
//	  suite_none.go                 nothing in other builds
//	  memory.go                     how often garbage is collected, and when memory is given back
//	  run.go                        run
//	  search.go, searchquery.go     search
//	  searchdoctor.go
//	  searchengines.go
//	  read.go, readurl.go           read
//	  toolkit.go                    toolkit, and the helper in a box
//	  call.go                       call
//	  hook.go, workflow.go          hook; the flags of hooks
//	  demo.go                       demo-server
//
//	what servers are asked
//	  upstream.go                   upstream
//	  upstreamrun.go
//	  upstreamlogin.go
//	  upstreamimport.go
//	  upstreamadd.go
//	  upstreamtrust.go
//	  upstreamtest.go
//	  upstreamdecide.go
//	  upstreampins.go
//	  upstreamreach.go
//	  upstreamfile.go
//	  upstreamquestions.go
//	  console.go                    console
//	  ask.go, askscreen.go          ask
//	  askform.go
//	  approve.go, approvewatch.go   approve
//	  approvedesk.go, seen.go
//	  fleet.go, place.go            fleet, place
//	  fleetpolicy.go
//	  tenant.go, session.go         tenant; session and job
//	  token.go, state.go            token; state
//
//	the host
//	  doctor.go, probe.go           doctor
//	  doctorhttp.go, auditdoctor.go
//	  browser.go, browserwatch.go   browser
//	  diagnosis.go
//	  ports.go, image.go            ports and ps; image
//
//	policies, logs and workspaces
//	  policy.go, policy_json.go     policy
//	  policy_lint.go
//	  policy_bundled.go
//	  policy_replay.go
//	  policy_score.go
//	  policy_schema.go
//	  policy_files.go
//	  policystatus.go
//	  audit.go, auditplay.go        audit
//	  auditreel.go
//	  auditverify.go, auditfleet.go, auditlog.go
//	  workspace.go                  workspace
//	  workspace_change.go
//	  workspace_prune.go
//	  workspace_store.go
//	  version.go                    version
//
//	what commands have in common
//	  setup.go, logging.go          flags of what opens a server
//	  servehttp.go
//	  workspace_mode.go
//	  fleetinfo.go                  what fronts know
//	  commandline.go, values.go     arguments, flags and help
//	  help.go
//	  screen.go, pipe.go            a terminal; a reader that goes away
//	  table.go, text.go             tables and other output
//	  status.go                     exit statuses
package main
