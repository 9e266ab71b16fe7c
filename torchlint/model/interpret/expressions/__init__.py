"""Expressions -> values: the middle layer of the interpreter."""
