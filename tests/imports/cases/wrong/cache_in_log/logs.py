import torch


def log_step(i, value, every=10):
    torch.cuda.empty_cache()
    if i % every:
        return
    mb = torch.cuda.memory_allocated() / 2 ** 20 if torch.cuda.is_available() else 0.0
    print(f"{i:5d} {value:.4f} {mb:.0f} MiB")
