"""The effects of callables, methods and attributes on values: the lowest layer of the interpreter."""
