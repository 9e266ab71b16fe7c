import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator

class PolicyTrainer:
    def __init__(self, args, policy, dataset):
        self.accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
        optimizer = torch.optim.AdamW(policy.parameters(), lr=args.lr)
        loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
        self.policy, self.optimizer, self.loader = self.accelerator.prepare(policy, optimizer, loader)
        self.args = args

    def compute_loss(self, batch):
        logp = self.policy(batch["queries"]).log_softmax(-1).gather(1, batch["actions"][:, None]).squeeze(1)
        ratio = torch.exp(logp - batch["logprobs"])
        gain = torch.min(ratio * batch["advantages"], ratio.clamp(0.8, 1.2) * batch["advantages"])
        return -gain.mean()

    def step(self):
        self.policy.train()
        stats = []
        for batch in self.loader:
            with self.accelerator.accumulate(self.policy):
                loss = self.compute_loss(batch)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.policy.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
            stats.append(loss.item())
        return sum(stats) / len(stats)
