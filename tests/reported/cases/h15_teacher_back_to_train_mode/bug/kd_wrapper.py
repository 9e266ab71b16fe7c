import torch
import torch.nn.functional as F
from torch import nn


class KDModelWrapper(nn.Module):
    """Student and teacher in one module, so that the trainer sees a single model whose output has a loss."""

    KD_LAST_COMPARISON = "kd_last_comparison"

    def __init__(self, student_model, teacher_model, hardness=0.5, temperature=2.0):
        super().__init__()
        self.student_model = student_model
        self.teacher_model = teacher_model
        self.hardness = hardness
        self.temperature = temperature
        self.kd_last_comparison = None
        self.teacher_model.eval()
        for param in self.teacher_model.parameters():
            param.requires_grad_(False)

    def forward(self, inputs, labels=None):
        student_logits = self.student_model(inputs)
        if labels is None:
            return {"logits": student_logits}
        task_loss = F.cross_entropy(student_logits, labels)
        if not self.training:
            return {"loss": task_loss, "logits": student_logits}

        with torch.no_grad():
            teacher_logits = self.teacher_model(inputs)
        t = self.temperature
        comparison = F.kl_div(
            F.log_softmax(student_logits / t, dim=-1), F.softmax(teacher_logits / t, dim=-1), reduction="batchmean"
        )
        self.kd_last_comparison = comparison.item() * t * t
        loss = (1 - self.hardness) * task_loss + self.hardness * comparison * t * t
        return {"loss": loss, "logits": student_logits}

    def state_dict(self, *args, **kwargs):
        return self.student_model.state_dict(*args, **kwargs)
