import copy
import torch


def split(module):
    """Biases without weight decay; the module itself stays as it is."""
    module = copy.deepcopy(module)
    weights = [p for n, p in module.named_parameters() if not n.endswith("bias")]
    biases = [p for n, p in module.named_parameters() if n.endswith("bias")]
    return weights, biases


def build_optimizer(module, cfg):
    weights, biases = split(module)
    groups = [{"params": weights, "weight_decay": cfg["decay"]}, {"params": biases, "weight_decay": 0.0}]
    return {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}[cfg["name"]](groups, lr=cfg["lr"])
