package lex

import "belljar.dev/internal/toolkit/code"

// parseJava reads Java.
func parseJava(f *code.File) { parseOther(f) }
