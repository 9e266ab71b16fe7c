import torch
from torch.utils.data import DataLoader, TensorDataset


class Table:
    def __init__(self, features, labels, task_type):
        self.features = features
        self.labels = labels
        self.task_type = task_type

    @property
    def is_regression(self):
        return self.task_type == "regression"

    @property
    def dim_out(self):
        return 1 if self.is_regression else int(self.labels.max()) + 1


def housing(rows=512):
    generator = torch.Generator().manual_seed(11)
    features = torch.randn(rows, 6, generator=generator)
    weights = torch.tensor([[2.0], [-1.0], [0.5], [0.0], [1.5], [-0.5]])
    labels = features @ weights + 0.1 * torch.randn(rows, 1, generator=generator)
    return Table(features, labels, "regression")


def make_loader(table, batch_size, shuffle):
    labels = table.labels.float() if table.is_regression else table.labels.long()
    return DataLoader(TensorDataset(table.features, labels), batch_size=batch_size, shuffle=shuffle)
