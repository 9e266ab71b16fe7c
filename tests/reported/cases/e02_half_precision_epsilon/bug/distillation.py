import torch
from torch import nn
from torch.nn import functional as F


def colbert_kd_scores(queries, documents):
    # queries (batch, query length, dim), documents (batch, candidates, document length, dim)
    similarity = torch.einsum("bqd,bcld->bcql", queries, documents)
    return similarity.max(dim=-1).values.sum(dim=-1)


class Distillation(nn.Module):
    def __init__(self, model, score_metric=colbert_kd_scores, normalize_scores=True):
        super().__init__()
        self.model = model
        self.score_metric = score_metric
        self.normalize_scores = normalize_scores
        self.loss_function = nn.KLDivLoss(reduction="batchmean", log_target=True)

    def forward(self, queries, documents, labels):
        batch, candidates, length = documents.shape
        queries = F.normalize(self.model(queries), dim=-1)
        documents = F.normalize(self.model(documents.flatten(0, 1)), dim=-1)
        scores = self.score_metric(queries, documents.unflatten(0, (batch, candidates)))
        if self.normalize_scores:
            max_scores = scores.max(dim=1, keepdim=True).values
            min_scores = scores.min(dim=1, keepdim=True).values
            epsilon = 1e-8
            scores = (scores - min_scores) / (max_scores - min_scores + epsilon)
        labels = F.log_softmax(labels, dim=-1)
        return self.loss_function(F.log_softmax(scores, dim=-1), labels)
