package lex

import "belljar.dev/internal/toolkit/code"

// parseScript reads TypeScript and JavaScript.
func parseScript(f *code.File) { parseOther(f) }
