import torch

torch.set_grad_enabled(False)
