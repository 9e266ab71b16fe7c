import torch
import torch.distributed as dist


def energy_mae(prediction, target):
    error = (prediction["energy"] - target["energy"]).abs()
    return {"total": error.sum().item(), "numel": error.numel()}


def forces_mse(prediction, target):
    error = (prediction["forces"] - target["forces"]).square()
    return {"total": error.sum().item(), "numel": error.numel()}


class Evaluator:
    functions = {"energy_mae": energy_mae, "forces_mse": forces_mse}

    def eval(self, prediction, target, previous):
        metrics = {key: dict(value) for key, value in previous.items()}
        for name, function in self.functions.items():
            result = function(prediction, target)
            entry = metrics.setdefault(name, {"total": 0.0, "numel": 0.0})
            entry["total"] += result["total"]
            entry["numel"] += result["numel"]
        return metrics


def all_reduce(value):
    tensor = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.item()


def aggregate(metrics):
    return {name: {key: all_reduce(value) for key, value in entry.items()} for name, entry in metrics.items()}
