class Stopper:
    def __init__(self):
        self.best, self.weights = float("inf"), None

    def update(self, loss, model):
        if loss < self.best:
            self.best = loss
            weights = model.state_dict()
            for name in weights:
                weights[name] = weights[name].clone()
            self.weights = weights
