"""Python and its two trees: the parser's own, and LibCST's for edits."""
