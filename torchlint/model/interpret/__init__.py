"""The interpreter: statements, expressions and calls, on abstract values."""
