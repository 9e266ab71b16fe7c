"""Trainings whose gradients nobody clears. Of `loader` one batch gives NaN, of `batches` none; a backward pass of
`fragile` raises once, half-way.

After the fixes no step uses gradients twice, none is lost, and those of a refused batch are gone. `# no fix` on the
line of a `def` says that none is offered.
"""

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


def plain(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def finite_norm(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 5.0)
        if torch.isfinite(norm):
            optimizer.step()


def finite_norm_or_continue(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        if len(x) == 0:
            continue
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 5.0)
        if not torch.isfinite(norm):
            print("skipped")
            continue
        optimizer.step()


def finite_value(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        value = loss.item()
        is_good = value == value
        if is_good:
            optimizer.step()


def finite_gradients(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if all(p.grad.isfinite().all() for p in model.parameters()):
            optimizer.step()


def finite_loss_before_the_backward(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()


def finite_loss_around_both(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        if not torch.isnan(loss):
            loss.backward()
            optimizer.step()


def steps_without_the_backward(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        if not torch.isnan(loss):
            loss.backward()
        optimizer.step()


def caught(fragile, batches):
    optimizer = torch.optim.SGD(fragile.parameters(), lr=0.01)
    for x, y in batches:
        try:
            loss = F.mse_loss(fragile(x), y)
            loss.backward()
            optimizer.step()
        except RuntimeError:
            print("skipped")


def caught_before_the_step(fragile, batches):
    optimizer = torch.optim.SGD(fragile.parameters(), lr=0.01)
    for x, y in batches:
        try:
            loss = F.mse_loss(fragile(x), y)
            loss.backward()
        except RuntimeError:
            continue
        optimizer.step()


def one_step_of_a_function(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        train_step(model, optimizer, x, y)


def train_step(model, optimizer, x, y):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), 5.0)
    if torch.isfinite(norm):
        optimizer.step()


def every_third(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches):
        loss = F.mse_loss(model(x), y) / 3
        loss.backward()
        if (i + 1) % 3 == 0:
            optimizer.step()


def every_third_by_continue(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches):
        loss = F.mse_loss(model(x), y) / 3
        loss.backward()
        if (i + 1) % 3:
            continue
        optimizer.step()


def every_third_by_a_counter(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    waiting = 0
    for x, y in batches:
        loss = F.mse_loss(model(x), y) / 3
        loss.backward()
        waiting += 1
        if waiting == 3:
            optimizer.step()
            waiting = 0


def every_third_in_a_try(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches):
        try:
            loss = F.mse_loss(model(x), y) / 3
            loss.backward()
            if (i + 1) % 3 == 0:
                optimizer.step()
        except RuntimeError:
            print("skipped")


def each_of_two_optimizers(model, batches):
    first = torch.optim.SGD(model[0].parameters(), lr=0.01)
    last = torch.optim.SGD(model[-1].parameters(), lr=0.01)
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        for optimizer in (first, last):
            optimizer.step()


def micro_batches(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        for part, target in zip(x.chunk(2), y.chunk(2)):
            loss = F.mse_loss(model(part), target)
            loss.backward()
        optimizer.step()


def every_third_and_finite(model, loader):  # no fix
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x), y) / 3
        loss.backward()
        if (i + 1) % 3 == 0:
            norm = clip_grad_norm_(model.parameters(), 5.0)
            if torch.isfinite(norm):
                optimizer.step()


def for_an_unknown_reason(model, loader, accepts):  # no fix
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if accepts(x):
            optimizer.step()


def two_passes(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        other = F.l1_loss(model(x + 1), y)
        other.backward()
        optimizer.step()


def two_passes_one_of_a_helper(model, batches, penalty):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        cost = penalty(model)
        cost.backward()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def two_optimizers(model, batches):
    first = torch.optim.SGD(model[0].parameters(), lr=0.01)
    last = torch.optim.SGD(model[-1].parameters(), lr=0.01)
    for x, y in batches:
        first.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        first.step()
        last.step()


def two_phases(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        other = F.l1_loss(model(x), y)
        other.backward()
        optimizer.step()


def two_arms(model, batches, smooth):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        if smooth:
            loss = F.smooth_l1_loss(model(x), y)
            loss.backward()
        else:
            loss = F.mse_loss(model(x), y)
            loss.backward()
        optimizer.step()


def scaled(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def cleared_as_elsewhere(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.zero_grad()
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 5.0)
        if norm < 1000:
            optimizer.step()


def lagging(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches):
        if i > 0:
            optimizer.step()
        loss = F.mse_loss(model(x), y)
        loss.backward()


def epochs(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            norm = clip_grad_norm_(model.parameters(), 5.0)
            if not torch.isfinite(norm):
                break
            optimizer.step()
