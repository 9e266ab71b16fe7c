import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset

from trainer import ForcesTrainer


def clusters(count, seed):
    generator = torch.Generator().manual_seed(seed)
    positions = torch.linspace(0.2, 1.5, count)[:, None] * torch.randn(count, 3, generator=generator)
    return TensorDataset(positions, positions.square().sum(1), -2 * positions)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 4))
    val_set = clusters(160, seed=2)
    trainer = ForcesTrainer(model, clusters(320, seed=1), val_set, batch_size=8)
    trainer.train(epochs=2)
    mae, count = trainer.validate()["energy_mae"]
    with torch.no_grad():
        positions, energy, _ = val_set.tensors
        truth = (model(positions)[:, 0] - energy).abs().mean().item()
    if dist.get_rank() == 0:
        print(f"energy MAE reported {mae:.4f} from {count:.0f} values; on the {len(val_set)} clusters {truth:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
