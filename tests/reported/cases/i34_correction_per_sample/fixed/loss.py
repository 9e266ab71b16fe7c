import torch
import torch.nn as nn
import torch.nn.functional as F
class CorrectedLoss(nn.Module):
    def forward(self, out, T, change, target):
        loss = 0.0
        shares = F.softmax(out, dim=1)
        T = T + change
        for i in range(len(target)):
            row = shares[i].unsqueeze(1)
            before = row[target[i]]
            after = torch.matmul(T.t(), row)[target[i]]
            weight = before / after
            entropy = F.cross_entropy(out[i].unsqueeze(0), target[i].unsqueeze(0))
            loss = loss + weight * entropy
        return loss / len(target)
