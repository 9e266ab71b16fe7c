"""Images and masks whose random flips, rotations or crops differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, transforms, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.definitions import ClassInfo, FunctionInfo
    from torchlint.syntax.python_ast import Site

_TARGET = LazyPattern(
    r"(?i)(?:^|[._])(?:\w*masks?(?:_\w+)?|\w*seg(?:mentation)?|gt|ground_?truth|annot\w*|\w*label_?(?:img|image|map)"
    r"|weightings?|\w*weight_?maps?|trimaps?|depth(?:_?maps?)?|disparity(?:_?maps?)?)$"
)
_SEEDING = LazyPattern(r"seed|rng_state|get_params|setstate|getstate")
_PLACED = LazyPattern(
    r"(?i)^(?:gt_?)?(?:masks?|seg(?:mentation)?(?:_?map)?|bb?oxe?s?|bound(?:ing)?_?box(?:es)?|key_?points?|kpts?"
    r"|landmarks?|joints?(?:_?2d)?)$"
)
"""Variables whose content belongs to places of an image."""
_FLIPPING = frozenset("fliplr flipud flip hflip vflip mirror transpose rot90".split())
_DRAW = LazyPattern(r"^(?:np\.random|numpy\.random|random|torch)\.(?:rand\w*|uniform|choice)$")
_TURNED = LazyPattern(r"FLIP_|TRANSPOSE")


class FlippedAlone(NamedTuple):
    """The code at `site` flips `image` in some samples, and leaves `target` as it is."""

    site: Site
    condition: Site
    image: str
    target: str


class Separate(NamedTuple):
    """The code applies the transform at `random` to an image at `first` and to its mask at `second`."""

    site: Site
    random: Site
    name: str
    mask: str


class SeparateTransforms(Rule):
    """An image and its mask get different random transforms.

    ## What it does
    Finds datasets that call the same random transform for an image and for its mask, `self.transform(image)` and
    `self.transform(mask)`. The transform flips, rotates or crops, and nothing sets the seed between the two calls.

    Also finds a `__getitem__` that flips an image in some samples but not its mask, boxes or keypoints.

    ## Why is this bad?
    Each call draws new random numbers. The image may be flipped while its mask is not. In half of the samples, the
    target does not match the image. The loss falls a little and then stays there.

    ## Example
    ```python
    from torch.utils.data import Dataset
    from torchvision import transforms

    class Cells(Dataset):
        def __init__(self, pairs):
            self.pairs = pairs
            self.transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])

        def __getitem__(self, index):
            image, mask = self.pairs[index]
            return self.transform(image), self.transform(mask)
    ```

    Use instead:
    ```python
    from torch.utils.data import Dataset
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    class Cells(Dataset):
        def __init__(self, pairs):
            self.pairs = pairs
            self.transform = v2.Compose([v2.RandomHorizontalFlip(), v2.ToImage()])

        def __getitem__(self, index):
            image, mask = self.pairs[index]
            return self.transform(image, tv_tensors.Mask(mask))
    ```

    ## References
    - [torchvision: transforms of images, masks and boxes](https://docs.pytorch.org/vision/stable/transforms.html)
    """

    code = "TL625"
    category = Category.CORRECTNESS
    triggers = (
        (b"ransform", b"flip", b"FLIP", b"mirror", b"::-1"),
        (b"Random", b"Elastic", b"random", b"rand("),
        (b"torchvision", b"Dataset"),
    )

    def ask(self) -> Iterator[Separate | FlippedAlone]:
        if self.model.is_test:
            return
        yield from _flipped_alone(self.model)
        definitions = self.model.definitions
        for info in definitions.classes.values():
            for attribute, mask, call in self._pairs(info):
                stores = list(written.stores_of(attribute, info))
                value = written.assigned(stores[0], definitions) if len(stores) == 1 else None
                if value is not None and not isinstance(value, ast.Name):
                    yield from self._found(call, value, mask)
        for made in self.model.tree.of_type(ast.Call):
            given = [item for item in python_ast.arguments(made) if isinstance(item, (ast.Name, ast.Call))]
            if any(transforms.first_of(item, transforms.GEOMETRIC, definitions) is not None for item in given):
                owner = definitions.class_named(python_ast.dotted(made.func))
                if owner is not None:
                    yield from self._of_object(made, owner)

    def _of_object(self, made: ast.Call, info: ClassInfo) -> Iterator[Separate]:
        """The calls where a class applies a transform that its constructor receives."""
        for attribute, mask, call in self._pairs(info):
            given = self._given(made, attribute, info)
            if given is not None:
                is_own = info.definitions is self.model.definitions
                yield from self._found(call if is_own else made, given, mask)

    def _pairs(self, info: ClassInfo) -> Iterator[tuple[str, str, ast.Call]]:
        """The attributes that `__getitem__` calls for an image and for a mask, with the mask's name and call."""
        method = info.methods.get("__getitem__")
        if method is None:
            return
        calls: dict[str, list[ast.Call]] = {}
        for node in names.own_nodes(method.node):
            if isinstance(node, ast.Call) and _SEEDING.search(python_ast.dotted(node.func)):
                return
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
                if python_ast.dotted(node.func.value) == "self" and not node.keywords:
                    calls.setdefault(node.func.attr, []).append(node)
        for attribute, found in calls.items():
            given = [self._names(item, info) for item in found]
            masks = [[name for name in names if _TARGET.search(name)] for names in given]
            if len(found) == 2 and bool(masks[0]) != bool(masks[1]):
                index = int(bool(masks[1]))
                yield attribute, masks[index][0], found[index]

    def _names(self, call: ast.Call, info: ClassInfo) -> list[str]:
        """The names that a call transforms, and the names that its result is assigned to."""
        statement = info.definitions.tree.parent(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        nodes = [*targets, *python_ast.walk(call.args[0])]
        return [
            name for node in nodes if isinstance(node, (ast.Name, ast.Attribute)) and (name := python_ast.dotted(node))
        ]

    def _given(self, made: ast.Call, attribute: str, info: ClassInfo) -> ast.expr | None:
        """The constructor argument that a class stores as an attribute."""
        init = info.methods.get("__init__")
        stores = list(written.stores_of(attribute, info))
        value = written.assigned(stores[0], info.definitions) if len(stores) == 1 else None
        if init is None or not isinstance(value, ast.Name) or value.id not in init.parameters:
            return None
        return written.argument(made, init.parameters.index(value.id) - 1, value.id)

    def _found(self, call: ast.Call, transform: ast.expr, mask: str) -> Iterator[Separate]:
        random = transforms.first_of(transform, transforms.GEOMETRIC, self.model.definitions)
        if random is not None:
            name = transforms.name_of(random, self.model.definitions)
            yield Separate(python_ast.site_of(call), python_ast.site_of(random), name, mask)

    def report_FlippedAlone(self, found: FlippedAlone) -> None:
        self.report(
            found.site,
            f"`{found.image}` is flipped in some samples but `{found.target}` is not: they no longer match",
            related=[(found.condition, "this decides at random")],
            help=f"flip `{found.target}` too",
        )

    def report_Separate(self, found: Separate) -> None:
        self.report(
            found.site,
            f"`{found.name}` draws new random numbers for `{found.mask}`: image and mask no longer match",
            related=[(found.random, "this transform is random")],
            help="transform both in one call, for example with `torchvision.transforms.v2`",
        )


def _flipped_alone(model: Model) -> Iterator[FlippedAlone]:
    for method in model.definitions.functions.values():
        if method.name == "__getitem__" and method.owner is not None:
            yield from _of_method(method, model)


def _of_method(method: FunctionInfo, model: Model) -> Iterator[FlippedAlone]:
    nodes = list(names.own_nodes(method.node))
    for branch in nodes:
        if not isinstance(branch, ast.If) or branch.orelse or not _draws(branch.test):
            continue
        flips = [_flipped(statement) for statement in branch.body]
        if not all(flips) or any(_PLACED.search(name) for name in flips):
            continue
        same = [item for item in nodes if isinstance(item, ast.Name) and _PLACED.search(item.id)]
        for target in sorted({item.id for item in same}):
            uses = [item for item in same if item.id == target]
            before = [item for item in uses if not isinstance(item.ctx, ast.Load) and item.lineno < branch.lineno]
            after = [item for item in uses if item.lineno > (branch.end_lineno or 0)]
            inside = [item for item in uses if branch.lineno <= item.lineno <= (branch.end_lineno or 0)]
            if before and not inside and any(isinstance(item.ctx, ast.Load) for item in after):
                sites = python_ast.site_of(branch.body[0]), python_ast.site_of(branch.test)
                yield FlippedAlone(*sites, flips[0], target)
                return


def _draws(test: ast.expr) -> bool:
    """Whether a condition draws a random number itself."""
    calls = (item for item in python_ast.walk(test) if isinstance(item, ast.Call))
    return any(_DRAW.search(python_ast.dotted(call.func)) for call in calls)


def _flipped(statement: ast.stmt) -> str:
    """The variable that a statement flips; empty if it does anything else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or target.id not in python_ast.names_read(value):
        return ""
    for node in python_ast.walk(value):
        if isinstance(node, ast.Call) and python_ast.called_name(node) in _FLIPPING:
            is_flip = python_ast.called_name(node) != "transpose" or _TURNED.search(ast.unparse(node))
            return target.id if is_flip else ""
        if isinstance(node, ast.Subscript) and _is_of_places(node):
            return target.id
    return ""


def _is_of_places(value: ast.Subscript) -> bool:
    """Whether an index reverses rows or columns, not the channels of an image: `img[:, ::-1]`, `img[:, :, ::-1]`."""
    cuts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
    if any(isinstance(cut, ast.Constant) for cut in cuts):
        return False
    steps = [cut.step if isinstance(cut, ast.Slice) else None for cut in cuts[:2]]
    return any(step is not None and ast.unparse(step) == "-1" for step in steps)
