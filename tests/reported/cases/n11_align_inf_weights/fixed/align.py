import torch
import torch.nn as nn
import torch.nn.functional as F


class AttDot(nn.Module):
    def forward(self, query, y):
        att = torch.bmm(query, y.transpose(2, 1))
        sim = att.max(2)[0].unsqueeze(1)
        return F.softmax(att, dim=2), sim


class AttLuong(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.W = nn.Linear(dim, dim)

    def forward(self, query, y):
        att = torch.bmm(query, self.W(y).transpose(2, 1))
        sim = att.max(2)[0].unsqueeze(1)
        return F.softmax(att, dim=2), sim


class Alignment(nn.Module):
    def __init__(self, method, dim):
        super().__init__()
        self.att = AttDot() if method == "dot" else AttLuong(dim)

    def forward(self, query, y, n_wins_y):
        mask = torch.arange(y.size(1))[None, :] < n_wins_y[:, None]
        mask = mask.unsqueeze(1).expand(-1, query.size(1), -1)
        att, sim = self.att(query, y)
        att = att * mask
        return torch.bmm(att, y)


class Quality(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.rnn = nn.GRU(20, dim, batch_first=True)
        self.align = Alignment("luong", dim)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, deg, ref, n_wins):
        d, _ = self.rnn(deg)
        r, _ = self.rnn(ref)
        a = self.align(d, r, n_wins)
        return self.out(torch.cat((d, a), dim=2).mean(1))


def main():
    model = Quality()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        deg, ref = torch.randn(4, 12, 20), torch.randn(4, 12, 20)
        n_wins, mos = torch.randint(5, 12, (4,)), torch.rand(4, 1) * 4 + 1
        loss = F.mse_loss(model(deg, ref, n_wins), mos)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
