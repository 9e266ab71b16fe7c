import argparse
import torch
import torch.nn as nn

class Recognizer(nn.Module):
    def __init__(self, idim, odim):
        super().__init__()
        self.enc = nn.LSTM(idim, 256, 3, batch_first=True)
        self.output = nn.Linear(256, odim)
        self.ctc = nn.CTCLoss(zero_infinity=True)
    def forward(self, xs, xlens, ys, ylens):
        out, _ = self.enc(xs)
        logp = self.output(out).log_softmax(-1).transpose(0, 1)
        return self.ctc(logp, ys, xlens, ylens)

def run_epoch(model, train_set, optimizer, args):
    model.train()
    accum = 0
    optimizer.zero_grad()
    for batch in train_set:
        accum += 1
        loss = model(*[b.cuda() for b in batch])
        loss.backward()
        if accum >= args.accumulation_steps:
            nn.utils.clip_grad_norm_(model.parameters(), args.bound)
            optimizer.step()
            optimizer.zero_grad()
            accum = 0
        print(loss.item())

def main(train_set):
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulation_steps", type=int, default=4)
    parser.add_argument("--bound", type=float, default=5.0)
    args = parser.parse_args()
    model = Recognizer(80, 1000).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(25):
        run_epoch(model, train_set, optimizer, args)
