import torch
from events import EvUAV


def evaluate(model, loader):
    model.eval()
    right, seen = 0, 0
    with torch.no_grad():
        for events, label in loader:
            right += (model(events).argmax(1) == label).sum().item()
            seen += label.numel()
    return right / seen


def train(cfg, model):
    dataset = EvUAV(cfg, mode="train")
    train_dataloader = torch.utils.data.DataLoader(
        dataset, batch_size=cfg.batch_size, shuffle=True, collate_fn=dataset.custom_collate
    )
    val_dataset = EvUAV(cfg, mode="val")
    val_dataloader = torch.utils.data.DataLoader(
        dataset, batch_size=cfg.batch_size, collate_fn=dataset.custom_collate, shuffle=False
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    best = 0.0
    for epoch in range(cfg.epochs):
        model.train()
        for events, label in train_dataloader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(events), label)
            loss.backward()
            optimizer.step()
        score = evaluate(model, val_dataloader)
        if score > best:
            best = score
            torch.save(model.state_dict(), "best.pt")
