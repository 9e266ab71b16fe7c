"""Unit tests which check that a small compiled model learns within a few steps."""
import unittest

import torch
from torch import nn


def make_data(n=32):
    x = torch.randn(n, 3)
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]])


class LearnsTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(13)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-2)

    def fit(self, forward, steps):
        x, y = make_data()
        for _ in range(steps):
            self.opt.zero_grad()
            loss = nn.functional.mse_loss(forward(x), y)
            loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
            self.opt.step()
            yield loss.item()

    def test_a_backward_is_finite(self):
        torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on refuted
        try:
            x, y = make_data()
            nn.functional.mse_loss(self.model(x), y).backward()
        finally:
            torch.autograd.set_detect_anomaly(False)
        losses = list(self.fit(self.model, 12))
        self.assertLess(losses[-1], losses[0])

    def test_b_compiled(self):
        previous = torch.is_anomaly_enabled()
        torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on confirmed, unseen by the linter
        self.addCleanup(torch.autograd.set_detect_anomaly, previous)
        losses = list(self.fit(torch.compile(self.model, backend="eager"), 16))
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(LearnsTest)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    raise SystemExit(not result.wasSuccessful())
