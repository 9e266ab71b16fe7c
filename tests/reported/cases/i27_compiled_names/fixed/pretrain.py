import torch
import torch.nn.functional as F
from model import Transformer

def main(loader, steps, path="ckpt.pt"):
    model = Transformer().cuda()
    model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _, ids in zip(range(steps), loader):
        ids = ids.cuda()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.save({"model_state_dict": model.state_dict(), "step": steps}, path)
