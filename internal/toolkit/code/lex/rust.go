package lex

import "belljar.dev/internal/toolkit/code"

// parseRust reads Rust.
func parseRust(f *code.File) { parseOther(f) }
