class Smoother:
    def __init__(self, beta):
        self.beta, self.value, self.n = beta, None, 0

    def __call__(self, x):
        self.n += 1
        if self.value is None:
            self.value = x
        else:
            self.value = self.beta * self.value + (1 - self.beta) * x
        return self.value
