import nilm_metric as nm
import torch
from torch.utils.data import DataLoader


class Seq2Point(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(window, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def test(model, dataset, mean, std, threshold):
    model.eval()
    loader = DataLoader(dataset, batch_size=128)
    outs, truths = [], []
    with torch.no_grad():
        for x, y in loader:
            outs.append(model(x))
            truths.append(y)
    prediction = torch.cat(outs) * std + mean
    ground_truth = torch.cat(truths) * std + mean
    mae = nm.get_abs_error(ground_truth, prediction)
    recall, precision, f1 = nm.recall_precision_f1(ground_truth, prediction, threshold)
    print(f"mae {mae:.3f} recall {recall:.3f} precision {precision:.3f} f1 {f1:.3f}")
    return f1
