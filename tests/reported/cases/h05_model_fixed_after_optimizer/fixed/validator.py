import copy

from torch import nn

FIXERS = {}


def register_module_fixer(*types):
    def decorator(fn):
        for module_type in types:
            FIXERS[module_type] = fn
        return fn

    return decorator


@register_module_fixer(nn.BatchNorm1d, nn.BatchNorm2d)
def batchnorm_to_groupnorm(module):
    return nn.GroupNorm(min(8, module.num_features), module.num_features, affine=module.affine)


def clone_module(module):
    return copy.deepcopy(module)


class ModuleValidator:
    """Finds (and replaces) layers that mix the samples of a batch."""

    @classmethod
    def validate(cls, module):
        return [name for name, m in module.named_modules() if type(m) in FIXERS]

    @classmethod
    def is_valid(cls, module):
        return not cls.validate(module)

    @classmethod
    def fix(cls, module):
        module = clone_module(module)
        for name in cls.validate(module):
            parent_name, _, leaf = name.rpartition(".")
            parent = module.get_submodule(parent_name) if parent_name else module
            setattr(parent, leaf, FIXERS[type(getattr(parent, leaf))](getattr(parent, leaf)))
        return module
