class Stopper:
    def __init__(self):
        self.best, self.weights = float("inf"), None

    def update(self, loss, model):
        if loss < self.best:
            self.best = loss
            self.weights = model.state_dict()
