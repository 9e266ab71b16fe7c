from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Batches:
    def __init__(self, dataset, rank, world):
        self.dataset, self.rank, self.world = dataset, rank, world

    def make(self, size):
        order = DistributedSampler(self.dataset, self.world, self.rank, drop_last=True)
        batches = DataLoader(self.dataset, size, sampler=order)
        return batches, len(order)
