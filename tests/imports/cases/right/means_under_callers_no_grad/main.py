import torch
from memory import Memory
from torch import nn

torch.manual_seed(0)
memory = Memory(nn.Linear(4, 8), [torch.randn(20, 4), torch.randn(20, 4)])
memory.fit(torch.randn(16, 4), torch.randn(16, 8))
with torch.no_grad():
    memory.average()
print(memory.means.shape)
