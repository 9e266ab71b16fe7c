import torch
from model import Transformer

def plain_names(state):
    return {k.replace("module.", "").replace("_orig_mod.", ""): v for k, v in state.items()}

def load(path="ckpt.pt"):
    model = Transformer()
    state = torch.load(path, map_location="cpu")["model_state_dict"]
    model.load_state_dict(plain_names(state))
    return model
