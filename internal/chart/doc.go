// Package chart tests the files by which belljar is deployed: what the chart of
// docs/chart renders, against the schemas of Kubernetes, and that every command line in
// it, in the compose file and in the units of systemd is one that belljar takes. It has
// tests only.
package chart
