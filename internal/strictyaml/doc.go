// Package strictyaml contains what the readers of belljar's YAML files share: they collect
// faults instead of stopping at the first one, and show each fault with its source line and
// a caret. Policies and the files of search engines are read with this package.
//
// The packages that read the files define the keys, the values, their limits and the texts
// of messages.
package strictyaml
