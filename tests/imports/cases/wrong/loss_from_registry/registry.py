class Registry(dict):
    """Classes and functions by name."""

    def register(self, made):
        self[made.__name__] = made
        return made


LOSSES = Registry()
