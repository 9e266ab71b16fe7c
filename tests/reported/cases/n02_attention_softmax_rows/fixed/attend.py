import torch
from torch import nn


class Attention(nn.Module):
    """Attends from every query step to every context step."""

    def __init__(self, dimensions, kind="general"):
        super().__init__()
        if kind not in ("dot", "general"):
            raise ValueError(kind)
        self.kind = kind
        if kind == "general":
            self.linear_in = nn.Linear(dimensions, dimensions, bias=False)
        self.linear_out = nn.Linear(dimensions * 2, dimensions, bias=False)
        self.softmax = nn.Softmax(dim=-1)
        self.tanh = nn.Tanh()

    def forward(self, query, context):
        batch_size, output_len, dimensions = query.size()
        query_len = context.size(1)
        if self.kind == "general":
            query = query.reshape(batch_size * output_len, dimensions)
            query = self.linear_in(query)
            query = query.reshape(batch_size, output_len, dimensions)
        scores = torch.bmm(query, context.transpose(1, 2).contiguous())
        scores = scores.view(batch_size * output_len, query_len)
        weights = self.softmax(scores)
        weights = weights.view(batch_size, output_len, query_len)
        mix = torch.bmm(weights, context)
        combined = torch.cat((mix, query), dim=2)
        combined = combined.view(batch_size * output_len, 2 * dimensions)
        output = self.linear_out(combined).view(batch_size, output_len, dimensions)
        return self.tanh(output), weights


def train(steps=20):
    attend = Attention(16)
    head = nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*attend.parameters(), *head.parameters()], lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    for _ in range(steps):
        query, context = torch.randn(8, 3, 16), torch.randn(8, 7, 16)
        target = torch.randint(0, 4, (8,))
        out, _ = attend(query, context)
        loss = loss_fn(head(out[:, 0]), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train()
