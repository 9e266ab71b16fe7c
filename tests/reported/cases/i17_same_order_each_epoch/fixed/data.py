import torch
from torch.utils.data import Dataset
class Pairs(Dataset):
    def __init__(self, paths):
        self.paths = paths
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        high = torch.load(self.paths[i])
        return {"L": high[:, ::4, ::4], "H": high}
def make_dataset(split):
    import glob
    return Pairs(sorted(glob.glob(f"data/{split}/*.pt")))
