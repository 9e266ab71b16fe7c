"""Images and masks whose random flips, rotations or crops differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, transforms, written
from torchlint.syntax import python_ast

from . import _flipped_alone as flipped_alone

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo
    from torchlint.syntax.python_ast import Site

_TARGET = LazyPattern(
    r"(?i)(?:^|[._])(?:\w*masks?(?:_\w+)?|\w*seg(?:mentation)?|gt|ground_?truth|annot\w*|\w*label_?(?:img|image|map)"
    r"|weightings?|\w*weight_?maps?|trimaps?|depth(?:_?maps?)?|disparity(?:_?maps?)?)$"
)
_SEEDING = LazyPattern(r"seed|rng_state|get_params|setstate|getstate")


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

    def ask(self) -> Iterator[Separate | flipped_alone.FlippedAlone]:
        if self.model.is_test:
            return
        yield from flipped_alone.of_model(self.model)
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

    def report_FlippedAlone(self, found: flipped_alone.FlippedAlone) -> None:
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
