import copy

import torch


class ModelTrainer:
    def __init__(self, model, lr=1e-4):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train(self, dataset_train, dataset_val, num_epochs, patience=5):
        best_weights = None
        best_val_score = self.evaluate(dataset_val)
        epochs_since_update = 0
        for epoch in range(num_epochs):
            self.model.train()
            for obs, target in dataset_train:
                self.optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(self.model(obs), target)
                loss.backward()
                self.optimizer.step()
            val_score = self.evaluate(dataset_val)
            maybe_best = self.maybe_get_best_weights(best_val_score, val_score)
            if maybe_best:
                best_val_score = val_score
                best_weights = maybe_best
                epochs_since_update = 0
            else:
                epochs_since_update += 1
            if epochs_since_update >= patience:
                break
        if best_weights is not None:
            self.model.load_state_dict(best_weights)
        return best_val_score

    @torch.no_grad()
    def evaluate(self, dataset):
        self.model.eval()
        scores = [torch.nn.functional.mse_loss(self.model(obs), target).item() for obs, target in dataset]
        return sum(scores) / len(scores)

    def maybe_get_best_weights(self, best, score, threshold=0.01):
        if (best - score) / abs(best) > threshold:
            return copy.deepcopy(self.model.state_dict())
        return None
