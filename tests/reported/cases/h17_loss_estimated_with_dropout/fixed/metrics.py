import torch


@torch.no_grad()
def estimate_loss(model, ctx, loaders, eval_iters):
    model.eval()
    block_out = {}
    for split, dataloader in loaders.items():
        losses = torch.empty(eval_iters)
        for i, (X, Y) in zip(range(eval_iters), dataloader):
            with ctx:
                output = model(input_ids=X, labels=Y)
            losses[i] = output["loss"].item()
        block_out[f"loss/{split}"] = losses.mean().item()
    model.train()
    return block_out


@torch.inference_mode()
def evaluate_next_token(model, loader, k=1):
    model.eval()
    correct, total = 0, 0
    for X, Y in loader:
        logits = model(input_ids=X)["logits"][:, -1]
        correct += (logits.topk(k, dim=-1).indices == Y[:, -1:]).any(-1).sum().item()
        total += X.shape[0]
    return correct / total
