import sys

import torch
from forecasters import Deep, Linear

FORECASTERS = {"linear": Linear, "deep": Deep}


def main(name="deep"):
    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(20)]
    for _ in range(2):
        print(FORECASTERS[name]().fit(batches))


if __name__ == "__main__":
    main(*sys.argv[1:])
