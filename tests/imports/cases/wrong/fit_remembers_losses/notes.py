class Notes:
    def __init__(self):
        self.seen = []

    def saw(self, loss):
        self.seen.append(loss)

    def mean(self):
        return sum(float(loss) for loss in self.seen) / len(self.seen)
