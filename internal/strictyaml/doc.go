// Package strictyaml is what readers of our YAML files share: they gather faults
// instead of stopping at the first, and show each with its source line and a
// caret. Policies and the files of search engines are read with it.
//
// Keys, values and their limits are the matter of the package whose files they
// are, and so are the words of its messages.
package strictyaml
