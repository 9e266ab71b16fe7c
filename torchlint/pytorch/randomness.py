"""Random number generators of Python, numpy and PyTorch: functions that seed, create or use them.

Sources: the documentation of `random`, `numpy.random` (legacy generation), `torch.random` and `torch.utils.data`.
"""

from __future__ import annotations

SEEDING = frozenset(
    (
        "random.seed numpy.random.seed torch.manual_seed torch.random.manual_seed torch.cuda.manual_seed "
        "torch.cuda.manual_seed_all torch.cuda.random.manual_seed torch.cuda.random.manual_seed_all"
    ).split()
)
"""Functions that seed a generator of the process with their first argument."""
SEEDING_WITHOUT_RESULT = SEEDING - {"torch.manual_seed", "torch.random.manual_seed"}
"""Seeding functions that return None; the others return a generator."""
GENERATORS = frozenset(
    ("random.Random numpy.random.default_rng numpy.random.RandomState numpy.random.Generator torch.Generator").split()
)
"""Functions that create a separate generator."""
DRAWING_FROM_PYTHON = frozenset(
    (
        "random randint randrange choice choices sample shuffle uniform gauss normalvariate triangular betavariate "
        "expovariate gammavariate lognormvariate paretovariate vonmisesvariate weibullvariate getrandbits randbytes"
    ).split()
)
"""Functions of `random` that draw from its global generator."""
DRAWING_FROM_NUMPY = frozenset(
    (
        "beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric laplace "
        "logistic lognormal logseries multinomial multivariate_normal negative_binomial noncentral_chisquare "
        "noncentral_f normal pareto permutation poisson power rand randint randn random random_integers random_sample "
        "ranf rayleigh sample shuffle standard_cauchy standard_exponential standard_gamma standard_normal standard_t "
        "triangular uniform vonmises wald weibull zipf"
    ).split()
)
"""Functions of `numpy.random` that draw from its global generator."""
DRAWING_FROM_TORCH = frozenset(
    (
        "torch.rand torch.randn torch.randint torch.randperm torch.rand_like torch.randn_like torch.randint_like "
        "torch.normal torch.bernoulli torch.multinomial torch.poisson torch.utils.data.random_split "
        "torch.utils.data.RandomSampler torch.utils.data.WeightedRandomSampler torch.utils.data.SubsetRandomSampler "
        "torch.nn.init.uniform_ torch.nn.init.normal_ torch.nn.init.trunc_normal_ torch.nn.init.xavier_uniform_ "
        "torch.nn.init.xavier_normal_ torch.nn.init.kaiming_uniform_ torch.nn.init.kaiming_normal_ "
        "torch.nn.init.orthogonal_ torch.nn.init.sparse_"
    ).split()
)
"""Functions and samplers that draw from PyTorch's global generator by default."""
DRAWING_IN_PLACE = frozenset("normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_".split())
"""Methods of tensors that draw from it."""
BEFORE_GENERATOR = {
    "torch.utils.data.random_split": 2,
    "torch.utils.data.RandomSampler": 3,
    "torch.utils.data.WeightedRandomSampler": 3,
    "torch.utils.data.SubsetRandomSampler": 1,
    "torch.nn.init.uniform_": 3,
    "torch.nn.init.normal_": 3,
    "torch.nn.init.trunc_normal_": 5,
    "torch.nn.init.xavier_uniform_": 2,
    "torch.nn.init.xavier_normal_": 2,
    "torch.nn.init.kaiming_uniform_": 4,
    "torch.nn.init.kaiming_normal_": 4,
    "torch.nn.init.orthogonal_": 2,
    "torch.nn.init.sparse_": 3,
}
"""The number of arguments before a separate generator."""
