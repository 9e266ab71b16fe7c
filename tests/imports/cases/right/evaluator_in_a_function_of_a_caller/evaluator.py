class Evaluator:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader

    def run(self):
        self.model.eval()
        correct = 0
        for x, y in self.loader:
            correct += (self.model(x).argmax(1) == y).sum().item()
        return correct
