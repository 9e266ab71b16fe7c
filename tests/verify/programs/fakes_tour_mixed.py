"""GANs by four hands: one detaches, one trains through the generator for nothing, two have use for its gradients."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)


class Gan:
    def __init__(self):
        self.maker = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
        self.judge = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.makers = torch.optim.Adam(self.maker.parameters())
        self.judges = torch.optim.Adam(self.judge.parameters())

    def fake(self):
        return self.maker(torch.randn(8, 2))

    def learn_to_make(self):
        self.makers.zero_grad()
        (-self.judge(self.fake()).mean()).backward()
        self.makers.step()

    def learn_to_judge(self, score):
        self.judges.zero_grad()
        (score.mean() - self.judge(torch.randn(8, 3)).mean()).backward()
        self.judges.step()

    def detached(self):
        score = self.judge(self.fake().detach())  # verify: generator-graph-in-discriminator-step refuted
        self.learn_to_judge(score)
        self.learn_to_make()

    def through(self):
        for _ in range(2):
            fake = self.fake()
            score = self.judge(fake)  # verify: generator-graph-in-discriminator-step confirmed, unseen by the linter
            self.learn_to_judge(score)
        self.learn_to_make()

    def shared(self):
        """Both losses of one pass of the generator."""
        fake = self.fake()
        score = self.judge(fake)  # verify: generator-graph-in-discriminator-step inconclusive
        self.judges.zero_grad()
        score.mean().backward(retain_graph=True)
        self.makers.zero_grad()
        (-self.judge(fake).mean()).backward()
        self.makers.step()
        self.judges.step()

    def joint(self):
        """One backward for both; a layer between them could turn the gradient round."""
        self.judges.zero_grad()
        self.makers.zero_grad()
        score = self.judge(self.fake())  # verify: generator-graph-in-discriminator-step inconclusive
        score.pow(2).mean().backward()
        self.judges.step()
        self.makers.step()

    def frozen(self):
        for parameter in self.maker.parameters():
            parameter.requires_grad_(False)
        score = self.judge(self.fake())  # verify: generator-graph-in-discriminator-step refuted
        self.learn_to_judge(score)
        for parameter in self.maker.parameters():
            parameter.requires_grad_(True)
        self.learn_to_make()


gans = [Gan() for _ in range(5)]
for _ in range(4):
    for gan, turn in zip(gans, ("detached", "through", "shared", "joint", "frozen")):
        getattr(gan, turn)()
