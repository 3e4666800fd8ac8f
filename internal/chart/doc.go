// Package chart tests the files by which belljar is deployed. It checks what the Helm chart
// in docs/chart renders against the schemas of Kubernetes. It also checks that belljar accepts
// every command line in the chart, in the compose file and in the units of systemd. The package
// has tests only.
package chart
