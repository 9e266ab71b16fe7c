import os

import torch


class Saver:
    """Saves and restores the objects of a dict (by their state_dict)."""

    def __init__(self, items):
        self._items = items

    def restore(self, model_dir):
        path = os.path.join(model_dir, "model_checkpoint")
        if not os.path.exists(path):
            return 0
        checkpoint = torch.load(path)
        for name, item in self._items.items():
            item.load_state_dict(checkpoint[name])
        return checkpoint["step"]

    def save(self, model_dir, step):
        state = {name: item.state_dict() for name, item in self._items.items()}
        torch.save(dict(state, step=step), os.path.join(model_dir, "model_checkpoint"))
