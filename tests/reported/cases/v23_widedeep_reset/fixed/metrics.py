class Accuracy:
    def __init__(self):
        self.correct_count = 0
        self.total_count = 0

    def reset(self):
        self.correct_count = 0
        self.total_count = 0

    def __call__(self, y_pred, y_true):
        self.correct_count += (y_pred.argmax(1) == y_true).sum().item()
        self.total_count += len(y_true)
        return self.correct_count / self.total_count
