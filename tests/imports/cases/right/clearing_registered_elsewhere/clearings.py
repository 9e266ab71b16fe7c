class Bus:
    def __init__(self):
        self.h = {}

    def on(self, k, f=None):
        if f is None:
            return lambda g: self.on(k, g)
        self.h.setdefault(k, []).append(f)
        return f

    def emit(self, k):
        for f in self.h.get(k, ()):
            f()
