import torch
from resnet import ResNet
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROPOSAL_NUM = 3
CAT_NUM = 2


class AttentionNet(nn.Module):
    """Scores windows of the image and classifies the image together with the best of them."""

    def __init__(self, num_classes=4, topN=PROPOSAL_NUM):
        super().__init__()
        self.pretrained_model = ResNet([1, 1], num_classes)
        self.proposal_net = nn.Sequential(nn.Conv2d(16, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 1, 1))
        self.concat_net = nn.Linear(16 * (CAT_NUM + 1), num_classes)
        self.topN = topN

    def forward(self, x):
        resnet_out, rpn_feature, feature = self.pretrained_model(x)
        scores = self.proposal_net(rpn_feature.detach()).flatten(1)
        top_prob, top_index = scores.topk(self.topN, dim=1)
        size, batch = rpn_feature.shape[-1], x.shape[0]
        parts = []
        for i in range(batch):
            for j in top_index[i].tolist():
                r, c = 2 * min(j // size, size - 4), 2 * min(j % size, size - 4)
                parts.append(x[i, :, r : r + 8, c : c + 8])
        part_logits, _, part_feature = self.pretrained_model(torch.stack(parts).detach())
        part_feature = part_feature.view(batch, self.topN, -1)[:, :CAT_NUM].flatten(1)
        concat_logits = self.concat_net(torch.cat([part_feature, feature], dim=1))
        return resnet_out, concat_logits, part_logits.view(batch, self.topN, -1), top_prob


def ranking_loss(score, targets):
    loss = 0.0
    for i in range(score.shape[1]):
        pivot = score[:, i].unsqueeze(1)
        weight = (targets > targets[:, i].unsqueeze(1)).float()
        loss = loss + (weight * torch.relu(1 - pivot + score)).sum() / score.shape[0]
    return loss


@torch.no_grad()
def test(net, loader):
    net.eval()
    return torch.cat([net(img)[1] for img, label in loader])


def main(epochs=2):
    torch.manual_seed(0)
    label = torch.randint(0, 4, (48,))
    img = torch.randn(48, 3, 16, 16) + label[:, None, None, None]
    trainloader = DataLoader(TensorDataset(img, label), batch_size=12, shuffle=True)
    testloader = DataLoader(TensorDataset(img, label), batch_size=24)
    net = AttentionNet()
    creterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        net.train()
        for x, y in trainloader:
            raw_logits, concat_logits, part_logits, top_prob = net(x)
            with torch.no_grad():
                part = nn.functional.cross_entropy(part_logits.flatten(0, 1), y.repeat_interleave(PROPOSAL_NUM), reduction="none")
            loss = creterion(raw_logits, y) + creterion(concat_logits, y) + ranking_loss(top_prob, -part.view(len(y), -1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = (test(net, testloader).argmax(1) == label).float().mean().item()
        print(f"epoch {epoch} loss {loss.item():.4f} test accuracy {accuracy:.3f}")
    return net, testloader


if __name__ == "__main__":
    main()
