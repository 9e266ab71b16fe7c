"""One file: its rules run, what they find suppressed, sorted and fixed."""
