"""One judge per rule, grouped by the subject of the rules."""
