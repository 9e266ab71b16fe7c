from collections import OrderedDict, defaultdict

EVALUATORS = {}


def register(cls):
    EVALUATORS[cls.__name__] = cls
    return cls


def build_evaluator(cfg, **kwargs):
    return EVALUATORS[cfg["TEST"]["EVALUATOR"]](cfg, **kwargs)


class EvaluatorBase:
    def __init__(self, cfg):
        self.cfg = cfg

    def reset(self):
        raise NotImplementedError

    def process(self, mo, gt):
        raise NotImplementedError

    def evaluate(self):
        raise NotImplementedError


@register
class Classification(EvaluatorBase):
    """Evaluator for classification."""

    def __init__(self, cfg, lab2cname=None, **kwargs):
        super().__init__(cfg)
        self._lab2cname = lab2cname
        self._correct = 0
        self._total = 0
        self._per_class_res = None
        if cfg["TEST"]["PER_CLASS_RESULT"]:
            assert lab2cname is not None
            self._per_class_res = defaultdict(list)

    def reset(self):
        self._correct = 0
        self._total = 0

    def process(self, mo, gt):
        pred = mo.max(1)[1]
        matches = pred.eq(gt).float()
        self._correct += int(matches.sum().item())
        self._total += gt.shape[0]
        if self._per_class_res is not None:
            for i, label in enumerate(gt):
                self._per_class_res[label.item()].append(int(matches[i].item()))

    def evaluate(self):
        results = OrderedDict()
        results["accuracy"] = 100.0 * self._correct / self._total
        results["error_rate"] = 100.0 - results["accuracy"]
        if self._per_class_res is not None:
            accs = []
            for label in sorted(self._per_class_res):
                res = self._per_class_res[label]
                accs.append(100.0 * sum(res) / len(res))
            results["perclass_accuracy"] = sum(accs) / len(accs)
        return results
