import torch
from idlmam import train_simple_network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    x = torch.randn(200, 1)
    y = 2 * x + 1
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    model = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
    train_simple_network(model, nn.MSELoss(), loader, epochs=30, lr=0.1)
