import dataclasses
import logging
import math
from typing import Optional, Sequence

import torch


@dataclasses.dataclass
class TrainerOptions:
    accum_grad: int = 2
    grad_clip: float = 5.0
    grad_clip_type: float = 2.0
    log_interval: Optional[int] = None
    max_epoch: int = 4


class Trainer:
    """Runs the epochs: training with gradient accumulation, then validation."""

    @classmethod
    def run(cls, model, optimizers, schedulers, train_iter_factory, valid_iter, options):
        reporter = []
        for iepoch in range(1, options.max_epoch + 1):
            all_steps_are_invalid, train_loss = cls.train_one_epoch(
                model, optimizers, schedulers, train_iter_factory(iepoch), options
            )
            valid_loss = cls.validate_one_epoch(model, valid_iter)
            reporter.append((train_loss, valid_loss))
            logging.info("%d epoch results: train %.4f valid %.4f", iepoch, train_loss, valid_loss)
            if all_steps_are_invalid:
                logging.warning("The gradients at all steps are invalid in this epoch.")
        return reporter

    @classmethod
    def train_one_epoch(cls, model, optimizers: Sequence, schedulers: Sequence, iterator, options):
        accum_grad, losses = options.accum_grad, []
        model.train()
        all_steps_are_invalid = True
        for iiter, batch in enumerate(iterator, 1):
            loss, stats, weight = model(**batch)
            losses.append(stats["loss"])
            loss = loss / accum_grad
            loss.backward()

            if iiter % accum_grad == 0:
                grad_norm = torch.nn.utils.clip_grad_norm_(
                    model.parameters(), max_norm=options.grad_clip, norm_type=options.grad_clip_type
                )
                if not torch.isfinite(grad_norm):
                    logging.warning("The grad norm is %s. Skipping updating the model.", grad_norm.item())
                else:
                    all_steps_are_invalid = False
                    for optimizer, scheduler in zip(optimizers, schedulers):
                        optimizer.step()
                        if scheduler is not None:
                            scheduler.step()
                        optimizer.zero_grad()
        return all_steps_are_invalid, sum(v for v in losses if math.isfinite(v)) / len(losses)

    @classmethod
    @torch.no_grad()
    def validate_one_epoch(cls, model, iterator):
        model.eval()
        total = [model(**batch)[1]["loss"] for batch in iterator]
        return sum(total) / len(total)
