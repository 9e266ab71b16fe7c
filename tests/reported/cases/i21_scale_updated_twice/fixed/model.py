import torch
import torch.nn as nn
import torch.nn.functional as F

class Restorer:
    def __init__(self, restorer, judge, opt):
        self.restorer, self.judge = restorer.cuda(), judge.cuda()
        self.restorer_opt = torch.optim.Adam(self.restorer.parameters(), lr=opt["lr_g"])
        self.judge_opt = torch.optim.Adam(self.judge.parameters(), lr=opt["lr_d"])
        self.scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 11)

    def feed(self, data):
        self.low, self.high = data["low"].cuda(), data["high"].cuda()

    def improve(self):
        for p in self.judge.parameters():
            p.requires_grad = False
        self.restorer_opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            self.output = self.restorer(self.low)
            l_g = F.l1_loss(self.output, self.high) + 0.1 * F.softplus(-self.judge(self.output)).mean()
        self.scaler.scale(l_g).backward()
        self.scaler.unscale_(self.restorer_opt)
        nn.utils.clip_grad_norm_(self.restorer.parameters(), 1.0)
        self.scaler.step(self.restorer_opt)
        for p in self.judge.parameters():
            p.requires_grad = True
        self.judge_opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            l_d = F.softplus(-self.judge(self.high)).mean() + F.softplus(self.judge(self.output.detach())).mean()
        self.scaler.scale(l_d).backward()
        self.scaler.step(self.judge_opt)
        self.scaler.update()
        return {"l_g": l_g.item(), "l_d": l_d.item()}
