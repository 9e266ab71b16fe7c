import logging

import torch
import torch.distributed as dist
from torch.nn import functional as F


def evaluate(model, data_loader):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for x, energy in data_loader:
            total += F.mse_loss(model(x), energy, reduction="sum").item()
            count += len(energy)
    return total / count


def train_one_epoch(model, data_loader, optimizer, max_grad_norm):
    model.train()
    for x, energy in data_loader:
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), energy)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_grad_norm)
        optimizer.step()


def train(model, train_loader, train_sampler, valid_loader, optimizer, max_num_epochs, patience, rank,
          distributed_model=None, max_grad_norm=10.0):
    lowest_loss = float("inf")
    patience_counter = 0
    epoch = 0
    exit_now = torch.zeros(1)
    while epoch < max_num_epochs:
        if train_sampler is not None:
            train_sampler.set_epoch(epoch)
        model_to_train = model if distributed_model is None else distributed_model
        train_one_epoch(model_to_train, train_loader, optimizer, max_grad_norm)
        if distributed_model is not None:
            dist.barrier()
        if rank == 0:
            valid_loss = evaluate(model, valid_loader)
            logging.info("Epoch %d: loss=%.5f", epoch, valid_loss)
            if valid_loss >= lowest_loss:
                patience_counter += 1
                if patience_counter >= patience:
                    logging.info("Stopping optimization after %d epochs without improvement", patience_counter)
                    exit_now += 1
            else:
                lowest_loss = valid_loss
                patience_counter = 0
        if distributed_model is not None:
            dist.broadcast(exit_now, src=0)
        if exit_now.item():
            break
        epoch += 1
    logging.info("Training complete")
    return epoch
