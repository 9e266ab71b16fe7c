"""Functions that split datasets, take parts of them, or iterate over batches without end.

Sources: the documentation of `torch.utils.data` and `itertools`.
"""

from __future__ import annotations

SPLITS = frozenset({"torch.utils.data.random_split", "torch.utils.data.dataset.random_split"})
"""Functions that split a dataset, the first argument, into subsets of it."""
LOADERS = frozenset(
    f"{module}.DataLoader"
    for module in ("torch.utils.data", "torch.utils.data.dataloader", "torch_geometric.loader", "torch_geometric.data")
)
"""Classes of loaders, whose first argument is the dataset."""
SUBSETS = frozenset({"torch.utils.data.Subset", "torch.utils.data.dataset.Subset"})
"""Classes of parts of a dataset, the first argument; its attribute `dataset` is the whole."""
INDEXED = frozenset(
    "TensorDataset ConcatDataset Subset ImageFolder DatasetFolder MNIST FashionMNIST KMNIST EMNIST QMNIST USPS CIFAR10 "
    "CIFAR100 SVHN STL10 Caltech101 Caltech256 CelebA Flowers102 OxfordIIITPet Food101 StanfordCars VOCSegmentation "
    "VOCDetection CocoDetection Cityscapes ImageNet".split()
)
"""Datasets of PyTorch and torchvision whose index decides which sample they give."""
CYCLES = frozenset({"itertools.cycle"})
"""Functions that keep all elements of the first pass, and repeat them."""
SLICES = frozenset({"itertools.islice"})
"""Functions that end an iterator, the first argument, after some elements."""
OF_DATA = SPLITS | SUBSETS | CYCLES
SHUFFLING_SAMPLERS = frozenset(
    "RandomSampler WeightedRandomSampler SubsetRandomSampler DistributedSampler ImbalancedDatasetSampler".split()
)
"""Classes of samplers whose order differs from epoch to epoch by default."""
SUBSET_SAMPLERS = frozenset({"SubsetRandomSampler"})
"""Classes of samplers that draw some samples, by the indices in the first argument."""
