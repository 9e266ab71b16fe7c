import torch
from torch import nn
from transfer import load_encoder

torch.manual_seed(0)
encoder = load_encoder(8, 16)
head = nn.Linear(16, 3)
head_opt = torch.optim.SGD(head.parameters(), lr=0.1)
encoder_opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(50):
    x = torch.randn(32, 8)
    y = x[:, :3].argmax(1)
    loss = nn.functional.cross_entropy(head(encoder(x)), y)
    head_opt.zero_grad()
    encoder_opt.zero_grad()
    loss.backward()
    head_opt.step()
    encoder_opt.step()
print("fine-tuned, loss %.4f" % loss.item())
