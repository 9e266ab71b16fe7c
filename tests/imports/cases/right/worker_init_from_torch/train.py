from functools import partial

import numpy as np
from torch.utils.data import DataLoader, Dataset

from seeds import worker_init_fn


class Crops(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return np.random.randint(1 << 30)


def loader(rank):
    return DataLoader(Crops(), num_workers=2, worker_init_fn=partial(worker_init_fn, rank=rank))


if __name__ == "__main__":
    numbers = [int(number) for batch in loader(0) for number in batch]
    print(f"{len(set(numbers))} different numbers of {len(numbers)}")
