from torch import nn


def limit_gradients(module, norm):
    return nn.utils.clip_grad_norm_(module.parameters(), norm)
