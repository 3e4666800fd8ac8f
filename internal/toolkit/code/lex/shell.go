package lex

import "belljar.dev/internal/toolkit/code"

// parseShell reads shell scripts.
func parseShell(f *code.File) { parseOther(f) }
