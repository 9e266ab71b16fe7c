import torch

class Stopper:
    def __init__(self):
        self.best, self.state = float("inf"), None

    def update(self, loss, model):
        if loss < self.best:
            self.best = loss
            self.state = model.state_dict()
            torch.save(self.state, "best.pt")
