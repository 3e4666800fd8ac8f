"""Prints for each function of the files on standard input what Python knows of it.

A line is the path, the first line, the last line, the name, the number of parameters,
and mccabe's number for this function alone. A file that Python refuses has no lines.
"""

import ast
import sys
import warnings

import mccabe

warnings.simplefilter("ignore")
sys.setrecursionlimit(20000)
for path in sys.stdin.read().split("\0"):
    try:
        with open(path, "rb") as f:
            tree = ast.parse(f.read(), path)
    except (SyntaxError, ValueError):
        print(path, "refused", sep="\t")
        continue
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        visitor = mccabe.PathGraphingAstVisitor()
        visitor.preorder(node, visitor)
        (graph,) = visitor.graphs.values()
        args = node.args
        params = len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs)
        params += bool(args.vararg) + bool(args.kwarg)
        print(path, node.lineno, node.end_lineno, node.name, params, graph.complexity(), sep="\t")
