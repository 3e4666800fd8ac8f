package lex

import "belljar.dev/internal/toolkit/code"

// parsePython reads Python.
func parsePython(f *code.File) { parseOther(f) }
