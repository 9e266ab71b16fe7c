import torch
import torch.nn.functional as F
from learners import Learner


def episode(shots):
    labels = torch.arange(5).repeat_interleave(shots)
    return torch.randn(5 * shots, 16) + labels[:, None], labels


network = Learner(5)
optimizer = torch.optim.Adam(network.parameters())
for step in range(30):
    network.train()
    optimizer.zero_grad()
    support, labels = episode(5)
    query, answers = episode(15)
    F.cross_entropy(network(support, query, labels), answers).backward()
    optimizer.step()
    if step % 10 == 0:
        network.eval()
        right = 0.0
        for _ in range(20):
            support, labels = episode(5)
            query, answers = episode(15)
            out = network(support, query, labels)
            right += (out.argmax(1) == answers).sum().item() / len(answers)
        print(right / 20)
