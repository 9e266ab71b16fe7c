"""Statements, branches, loops and functions: the upper layer of the interpreter."""
