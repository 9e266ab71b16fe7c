import torch
from torch.utils.data import IterableDataset


def load_text(text):
    for line in text.splitlines():
        key, value = line.split(maxsplit=1)
        yield key, torch.tensor([int(v) for v in value.split()])


def load_feats(text):
    for line in text.splitlines():
        key, value = line.split(maxsplit=1)
        yield key, torch.tensor([float(v) for v in value.split()]).view(-1, 4)


DATA_TYPES = {"text_int": load_text, "kaldi_ark": load_feats}


class IterableESPnetDataset(IterableDataset):
    """Reads the sources side by side; they have the same keys in the same order."""

    def __init__(self, path_name_type_list, preprocess=None):
        if len(path_name_type_list) == 0:
            raise ValueError("1 or more elements are required for path_name_type_list")
        self.path_name_type_list = list(path_name_type_list)
        self.preprocess = preprocess

    def names(self):
        return [name for _, name, _ in self.path_name_type_list]

    def __iter__(self):
        readers = {name: DATA_TYPES[kind](path) for path, name, kind in self.path_name_type_list}
        count = 0
        for values in zip(*readers.values()):
            keys = {key for key, _ in values}
            if len(keys) != 1:
                raise RuntimeError(f"Keys are mismatched: {keys}")
            data = {name: value for name, (_, value) in zip(readers, values)}
            uid = keys.pop()
            if self.preprocess is not None:
                data = self.preprocess(uid, data)
            count += 1
            yield uid, data
        if count == 0:
            raise RuntimeError("No iteration")
