"""What callables, methods and attributes do to values: the lowest layer of the interpreter."""
