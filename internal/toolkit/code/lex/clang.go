package lex

import "belljar.dev/internal/toolkit/code"

// parseC reads C and C++.
func parseC(f *code.File) { parseOther(f) }
