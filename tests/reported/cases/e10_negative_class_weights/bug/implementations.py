import numpy as np
import torch


class LossWeightStrategyWeighted:
    def __call__(self, y):
        if isinstance(y, torch.Tensor):
            y = y.detach().cpu().numpy()
        _, counts = np.unique(y, return_counts=True)
        total_weight = y.shape[0]
        weight_per_class = total_weight / counts.shape[0]
        return np.ones(counts.shape[0]) * weight_per_class / np.maximum(counts, 1)


class LossWeightStrategyWeightedBinary:
    def __call__(self, y):
        if isinstance(y, torch.Tensor):
            y = y.detach().cpu().numpy()
        counts_one = np.sum(y, axis=0)
        counts_zero = counts_one + (-y.shape[0])
        weights = counts_zero / np.maximum(counts_one, 1)
        return np.array(weights)


def get_loss_weight_strategy(output_type):
    strategies = {"binary": LossWeightStrategyWeightedBinary, "multiclass": LossWeightStrategyWeighted}
    return strategies[output_type]()
