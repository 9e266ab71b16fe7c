import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader
from model import Mapper, Judge

PIXEL_WEIGHT, SCORE_WEIGHT = 50, 1

def fit(train_data, epochs=100):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(train_data, batch_size=16, shuffle=True)
    mapper = Mapper(6, 64).to(device)
    judge = Judge(64).to(device)
    pixel_loss = nn.L1Loss()
    score_loss = nn.BCELoss()
    judge_opt = optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
    mapper_opt = optim.Adam(mapper.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for epoch in range(epochs):
        mapper.train()
        judge.train()
        for before, after, mask in loader:
            before, after, mask = before.to(device), after.to(device), mask.to(device)
            pair = torch.cat((before, after), 1)
            ones = torch.ones(pair.shape[0], device=device)
            zeros = torch.zeros(pair.shape[0], device=device)
            fake = mapper(pair)
            on_fake = judge(fake)
            fooled = score_loss(on_fake, ones)
            mapper_loss = PIXEL_WEIGHT * pixel_loss(fake, mask) + SCORE_WEIGHT * fooled
            mapper_opt.zero_grad()
            mapper_loss.backward()
            mapper_opt.step()
            on_real = judge(mask)
            on_old = judge(fake.detach())
            judge_loss = (score_loss(on_real, ones) + score_loss(on_old, zeros)) * 0.5
            judge_opt.zero_grad()
            judge_loss.backward()
            judge_opt.step()
        print(epoch, mapper_loss.item(), judge_loss.item())
