"""Meanings suggested by names: reasons for silence, and, with other evidence, for findings."""

from __future__ import annotations

import re

from torchlint.lazy_pattern import LazyPattern


def _any_of(words: str, *, flags: int = re.IGNORECASE) -> LazyPattern[str]:
    return LazyPattern("|".join(words.split()), flags)


def _verbs(words: str) -> LazyPattern[str]:
    """Names that begin with one of these verbs: `save`, `save_model`, `saveModel`, `_save`."""
    return LazyPattern(rf"_?(?:{'|'.join(words.split())})(?:_|$|[A-Z0-9])")


# -- optimizers -----------------------------------------------------------------------------------------

_ALGORITHMS = (
    r"Adam|SGD|RMSprop|Adagrad|Adadelta|LBFGS|Lamb(?!da)|LAMB|Lion|Adafactor|NovoGrad|Ranger|RAdam|Rprop|Muon|Shampoo"
    r"|LARS"
)
_ALGORITHM = LazyPattern(rf"(?:{_ALGORITHMS})[A-Za-z0-9]*$")
_OPTIMIZER_CLASS = LazyPattern(rf"(?:{_ALGORITHMS}|Optimizer)[A-Za-z0-9]*$")
_NOT_OPTIMIZER_CLASS = LazyPattern(r"Scheduler|LR$|Config|Args|Params|Hook|State|Local")
_OPTIMIZER = _any_of(r"opt(?:im)?(?:$|[^a-z]) ^opt optim adam sgd lbfgs rmsprop (?:^|_)solver$")
_STEPS_TOO = _any_of(
    r"sched (?:^|_)lr(?:_|$) lr_ warm env scaler profil ^prof pbar bar$ meter logger timer fabric engine decay ema "
    r"writer progress game sim task option local_?sgd"
)


def is_optimizer_class(name: str) -> bool:
    """Whether a class name is an optimizer's: `AdamW`, `FusedLAMB`, but not `AdamConfig`."""
    return bool(_OPTIMIZER_CLASS.search(name)) and name[:1].isupper() and not _NOT_OPTIMIZER_CLASS.search(name)


def is_algorithm(name: str) -> bool:
    """Whether the name of an optimizer class describes an algorithm, `FusedAdam`, rather than a wrapper."""
    return bool(_ALGORITHM.search(name))


def looks_like_optimizer(label: str) -> bool:
    """Whether a name suggests an optimizer, and nothing else that steps."""
    return bool(_OPTIMIZER.search(label)) and not steps_too(label)


def steps_too(label: str) -> bool:
    """Whether a name suggests another object with a `step`: a scheduler, an environment."""
    return bool(_STEPS_TOO.search(label))


# -- what takes part in training --------------------------------------------------------------------------

SCALER = _any_of("scaler")
ENGINE = _any_of(r"(?:^|_)(?:accelerator|fabric|engine|booster|accel)$")
LOSS = _any_of(r"crit(?:$|er) loss(?:$|_?f) ^mse$ ^bce$ cross_entropy")
ARRANGING = LazyPattern(
    r"(?i)ball_?query|query_?and_?group|group_?all$|group(?:er|ing)$|(?:^|_)knn$|k_?nearest|voxeli[sz](?:er|ation)$"
    r"|(?<!up)(?<!down)sampler$|interpolat(?:e|or|ion)$|augment"
)
"""Classes and functions that select, group or move points: they have no parameters."""
_MODULE_WORDS = (
    r"model net(?:work)?s?(?:$|[^a-z]) net$ module encoder decoder "
    r"actor critic policy backbone discriminator generator "
    r"learner predictor classifier extractor transformer unet "
    r"vae vgg resnet bert gpt (?:^|_)(?:gen|dis|disc|netd|netg|agent|trainer)(?:$|_) ^(?:d|g|q|pi|ac)\d*$"
)
_ABOUT_A_MODULE = (
    "name path dir file url id type version size len length dim width depth input output pred prediction score"
).replace(" ", "|")
OUTPUTS = _any_of(r"output logit pred loss(?:$|es$) hidden recon fake ^outs?$ ^zs?$")
"""Lists of module outputs, perhaps with graphs: no data from a loader."""
MODULE = LazyPattern(rf"^(?!.*_(?:{_ABOUT_A_MODULE})s?$)(?=.*?(?:{'|'.join(_MODULE_WORDS.split())}))", re.IGNORECASE)
_CALLED = _any_of(
    _MODULE_WORDS
    + r" (?:^|_)(?:layers?|linear|lin|fc|conv|head|cell|block|embed(?:ding)?|proj|mlp|rnn|lstm|gru|attn)\d*$"
)
_ABOUT_MODULES = _verbs(
    "get set unwrap save load build create make init "
    "update train eval test freeze unfreeze log print register push "
    "prepare setup construct export convert copy clone wrap "
    "compile count check is has apply configure reset download "
    "parse add run"
)


def is_class_name(name: str) -> bool:
    """Whether a name is a class's by convention: `ResNet18`, but not `D` or `netD`."""
    return len(name) > 3 and name[0].isupper() and not name.isupper()


def is_called_as_module(label: str) -> bool:
    """Whether the name of a callee is a noun for a network, not a verb about one, nor a class."""
    return bool(_CALLED.search(label)) and not is_class_name(label) and not _ABOUT_MODULES.match(label)


# -- what leaves gradients alone ----------------------------------------------------------------------------

_TO_OPTIMIZER = (
    "_ print log save dump write adjust get_lr "
    "set_lr get_learning set_learning lr warmup update_lr update_learning decay "
    "schedule scheduler checkpoint clip scale_loss unscale state_dict load "
    "report record display show plot len repr str "
    "format set_optimizer_lr poly_lr cosine step_lr tqdm"
)
_HARMLESS_TO_OPTIMIZER = _verbs(_TO_OPTIMIZER)
_HARMLESS_TO_MODEL = _verbs(
    _TO_OPTIMIZER + " eval evaluate evaluation valid validate "
    "validation test predict infer inference sample generate "
    r"visuali[sz]e draw ema get accuracy acc metric compute "
    r"calc calculate count summary summari[sz]e track debug check "
    r"assert is has make_grid freeze unfreeze set_requires "
    r"requires_grad toggle set_train set_eval unwrap watch rollout "
    r"collect play all_?reduce reduce barrier sync "
    r"gather broadcast export early_?stop\w* average update_ema update_bn "
    "update_average soft_update hard_update polyak copy clone deepcopy "
    "seed time loss criterion forward encode decode "
    r"run_eval act offload select_action choose_action init initialize register add append avg mpi grad_?clip\w* "
    r"regulari[sz]\w* penalty odeint accumulate no_sync autocast device "
    r"num embed extract render greedy translate beam from"
)
_ONLY_COMPUTES = _verbs(
    _TO_OPTIMIZER + " eval evaluate evaluation valid validate validation test predict infer inference sample generate "
    r"visuali[sz]e draw acc accuracy metric count summary summari[sz]e track debug check assert is has make_grid watch "
    "gather average append avg add loss criterion forward encode decode render extract "
    r"regulari[sz]\w* penalty num embed greedy translate beam"
)
_COMPUTES_A_NUMBER = LazyPattern(
    r"_?(?:compute|calc|calculate|get)_?\w*(?:loss|losses|acc|accuracy|metrics?|score|error|reward|penalty|norm)s?$",
    re.IGNORECASE,
)
_CLEARING = _any_of("zero clear backward optimi")
_TOUCHING = _any_of(
    r"zero clear reset_?grad ^reset$ optimi update step train backward learn fit grad attack perturb refine"
)
_FRAMEWORK = frozenset({"optimizers", "lr_schedulers", "configure_optimizers"})
BYSTANDER = _any_of(
    r"ema log writer meter metric timer sched evaluat "
    r"checkpoint saver wandb profil progress pbar bar$ stats history "
    r"tracker monitor early stopp summary board visuali vis$ plot buffer memory replay env"
)
"""Names of objects that log, measure, average or schedule: their methods leave gradients alone."""


def is_harmless_to_optimizer(call: str) -> bool:
    """Whether a call with this name leaves the gradients of an optimizer argument alone."""
    return bool(_HARMLESS_TO_OPTIMIZER.match(call))


def is_harmless_to_model(call: str) -> bool:
    """Whether a call with this name leaves the gradients of a model argument alone."""
    if call in _FRAMEWORK:
        return True
    if is_clearing(call):
        return False
    computes = call.endswith(("_fn", "_func", "_function")) and not _TOUCHING.search(call)
    return computes or bool(_HARMLESS_TO_MODEL.match(call))


def only_computes(call: str) -> bool:
    """Whether a call with this name does not go backward through its tensor arguments."""
    if call.endswith(("_fn", "_func", "_function")) and not _TOUCHING.search(call):
        return True
    return bool(_ONLY_COMPUTES.match(call) or _COMPUTES_A_NUMBER.match(call))


def is_clearing(call: str) -> bool:
    """Whether a call with this name may clear the gradients of its arguments."""
    return bool(_CLEARING.search(call))


def may_touch_gradients(method: str) -> bool:
    """Whether a method of a module may do more than compute."""
    return bool(_TOUCHING.search(method))


UNSCALING = _any_of("scale clip grad amp precision prepare")
"""Calls that may divide gradients by the scale of a loss."""
SWITCHES_GRADIENTS = _any_of("no_?grad eval infer freez frozen grad_enabled test valid disable")
"""Context managers that may switch gradients off."""
SWITCHING_MODE = _any_of("train mode toggle set_")
"""Calls that may switch a module to training or evaluation."""
DIFFERENTIATING = _any_of(
    "grad backward attack perturb adversar saliency attribut jacob hess(?:$|ian) derivative (?:^|_)shap(?:_|$)"
)
"""Functions that compute gradients of a model's output, and their results."""
FORCES = _any_of("^derivatives?$ (?:^|_)forces$")
"""Names of gradients of an energy that a module computes itself."""
COUNTING = _any_of(
    r"accuracy(?!.*loss) accuracies (?:^|_)top_?[15](?:_|$) (?:^|_)roc_?auc (?:^|_)auroc f1_?score confusion_matrix "
    "(?:num|n|count|total)_correct"
)
"""Functions that count correct answers: the result has no graph for any arguments."""
SHOWING = _any_of("plot show view visuali display draw grid sample")
"""Names of functions that run a model to plot its results."""
PHASE = _any_of(r"phase (?:^|_)(?:split|stage|mode|subset|partition)$")
"""Names of phases: training, validation, test."""
FREEZING = _any_of("freez frozen trainable requires_grad")
SWITCHING = _any_of("toggle grad")
"""Names of functions that freeze their arguments, perhaps for a while."""
STOPPING = _any_of(
    "freez frozen trainable requires_grad (?<!clip_)(?<!log_)(?<!plot_)(?<!sync_)(?<!zero_)(?:gradients|(?<=_)grads)$"
)
"""Names of functions that may freeze something, or switch gradients off globally: `disable_gradients()`."""
COEFFICIENT = _any_of(
    r"weight lambda coef alpha beta gamma scale ratio factor (?:^|_)(?:lam|lmbda|lambd|w|n)(?:_|$|\d)"
    r" (?:^|_)(?:num|mu|eta|bs|size|count|length|total)(?:_|$)"
)
"""Names of numbers by which a term of a loss is multiplied or divided."""
STANDING_STILL = _any_of(
    "freez frozen fixed random teacher target momentum ema(?:$|_) averag key shadow slow prior reservoir pretrain "
    "perceptual reference (?:^|_)(?:rnd|ref|old|prev)(?:$|_)"
)
"""Modules and parameters that are not meant to learn, or that other code than an optimizer updates."""
INFERENCE = _any_of("infer generat(?!ed|or)")
"""Functions and conditions without backward; not those that train a generator."""
SEARCHING = _any_of(r"recogni[sz]e (?:^|_)beam(?:_|$) beam_?search (?:^|_)greedy(?:_|$) stream(?!s?$) incremental")
"""Functions that decode step by step with a trained model."""
EXPLAINING = _any_of("explain saliency relevance attribution (?:^|_)lrp(?:_|$) heat_?map")
"""Functions that compute by hand what a trained model looks at."""
CACHE = _any_of(r"(?:^|_)cache past_key incremental_state streaming")
"""State that only inference carries from call to call."""
EVALUATING = _any_of(r"(?:^|_)(?:val|valid|vali|test|dev|eval)(?:_|$|[A-Z\d]) validat evaluat (?:^|_)held_?out")
"""Functions and data of evaluations: `validate`, `test_loader`."""
STOCHASTIC = _any_of(
    r"(?:^|_)mc(?:_|$) monte dropout uncertain bayes stochastic posterior ensembl calibrat (?:^|_)bn(?:_|$) batch_?norm"
    r" recompute statistic adapt"
)
"""Functions that run a model in training mode on purpose: for its dropout, or for its statistics."""
GENERATOR = _any_of(r"generat (?:^|_)gens?(?:_|$) ^net_?g ^g(?:$|_) sampler")
"""Generator networks: in training mode their output may vary."""
TRAINING = LazyPattern(r"(is_?|do_?)?train(ing)?(_?mode)?|fit")
"""Flags and modes, as whole words, that mean training."""
DEBUGGING = _any_of("debug anomal nan detect check verbose trace profil test inspect safe")
"""Names of flags for debugging, not for training."""


# -- what an iteration is --------------------------------------------------------------------------------------

LOADER = _any_of(r"loader dataset (?:^|_)data_?iter")
"""Holders of batches: a function that receives one does a complete job."""
LOADING = _any_of(r"load (?:^|im|_)read open fetch")
"""Calls that load a file's data into memory, rather than change it."""
COLLECTING = _any_of(
    r"(?<!gc\.)collect rollout episode trajector self_?play (?:^|[._])(?:env|game|gym|sim)[a-z]*s?\.reset$"
)
"""Calls that gather experience."""
TEMPERATURE = LazyPattern(r"(?i)temp(erature)?$|(?:^|\.)(?:tau|(?-i:T))$")
"""Names of the temperature that divides scores."""
ACTION = LazyPattern(r"(?i)(?:^|_)act(?:ion)?s?(?:$|_)|^a$|^a_?[bt](?:atch)?$")
"""Names of actions that a policy draws."""
GENERATING = _any_of(r"(?:^|[._])generate(?:_|$) beam_?search (?:^|_)beam(?:_|$) rollout trajector")
"""Calls that run a model many times for one result: they take seconds, so the allocator does not matter."""
ENVIRONMENT_STEP = _any_of(r"(?:^|[._])(?:env|game|gym|sim)[a-z]*s?\.step$")
SIZE = _any_of(r"(?:^|_)sizes?$ ^bs$ resolution length")
"""Names of sizes: of a batch, of an image."""
MEASURING = _any_of(
    r"measur profil benchmark probe estimat mem(?:ory)?_?(?:us|stat|foot|test|bench) "
    r"batch_?size (?:max|largest|biggest|optimal)\w*batch"
)
"""Functions that measure memory, or look for the largest batch."""
MEMORY_FIGURE = _any_of(r"(?:^|_)(?:mem|memory|vram|gpu)_?(?:usage|used|stats|info|allocated|reserved) nvmlDevice")
"""Calls that read the amount of memory in use."""

_TEST_FOLDER = LazyPattern(r"(^|[/\\])(tests?|testing)(_[^/\\]*)?[/\\]|(^|[/\\])conftest\.py$")
_TEST_FILE = LazyPattern(r"(^|[/\\])(tests?_[^/\\]*|[^/\\]*_test)\.py$")
_TESTS = LazyPattern(rb"(?m)^[ \t]*(?:def[ \t]+test|class[ \t]+Test|(?:import|from)[ \t]+(?:unittest|pytest)\b)")

_BENCHMARK_FILE = LazyPattern(r"(^|[/\\])(bench(mark)?s?[_-][^/\\]*|[^/\\]*[_-]bench(mark)?s?)\.py$")
_TIMING = LazyPattern(rb"\b(?:perf_counter|timeit|Timer|timer|time\.time|elapsed_time)\b")


def is_test(path: str, code: bytes) -> bool:
    """Whether a file is a test, where some habits are correct, and which makes calls of all kinds.

    `test_model.py` alone may be the script that evaluates a model: a test defines tests.
    """
    if _TEST_FOLDER.search(path) is not None:
        return True
    return _TEST_FILE.search(path) is not None and _TESTS.search(code) is not None


def is_benchmark(path: str, code: bytes) -> bool:
    """Whether a file measures training time, by its name and its calls, so that the learned result does not matter."""
    return _BENCHMARK_FILE.search(path) is not None and _TIMING.search(code) is not None
