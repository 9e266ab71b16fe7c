"""Images that a program divides by 255 after a transform has done so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, numbers, transforms, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions
    from torchlint.syntax.python_ast import Site

_SAME = frozenset("float to cuda cpu copy astype permute transpose contiguous unsqueeze clone numpy".split())
_COPIES = frozenset("as_tensor tensor from_numpy asarray array ascontiguousarray Variable".split())
_IMAGE = LazyPattern(r"(?i)^(?:x|inputs?|data|batch_x|\w*im(?:age|g)s?\w*)$")
_FLOAT = LazyPattern(r"float|/ ?255|/=")
_ALBUMENTATIONS = LazyPattern(r"^albumentations\.(?:\w+\.)*(?:Normalize|ToFloat)$")
_LARGEST = (255, 256)


class Scaled(NamedTuple):
    """The division at `site` follows the transform made at `made`, here or in the file `home`."""

    site: Site
    made: Site | None
    name: str


class Numbers(NamedTuple):
    """The deviations at `site` are divided by 255, but are those of scaled images."""

    site: Site


class ScaledTwice(Rule):
    """An image is divided by 255 although its transform has already done so.

    ## What it does
    Finds divisions by 255 of images that `ToTensor` of torchvision, or `Normalize` of albumentations, has scaled to
    numbers of about 1. torchlint must see the transform: the class creates it, all files that create the class pass it,
    or the dataset of a loader contains it.

    Also finds `Normalize` with means or deviations that are already below 1 and are divided by 255 again:
    `std=[x / 255 for x in (0.27, 0.26, 0.28)]`.

    Not reported if the transform may receive an array of floats, because `ToTensor` scales bytes only.

    ## Why is this bad?
    All pixels are below 0.004. The first layer and its batch normalization see almost the same number everywhere, so
    the network learns slowly or not at all. Pretrained weights do not fit such images.

    ## Example
    ```python
    import torch
    from torchvision import datasets, transforms

    def train(model, optimizer):
        data = datasets.MNIST("data", transform=transforms.ToTensor())
        loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images / 255.0), labels).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torchvision import datasets, transforms

    def train(model, optimizer):
        data = datasets.MNIST("data", transform=transforms.ToTensor())
        loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    ```

    ## References
    - [torchvision.transforms.ToTensor](https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html)
    """

    code = "TL641"
    category = Category.CORRECTNESS
    triggers = ((b"255", b"256"), (b"torch",), (b"transform", b"Transform", b"Normalize"))

    def ask(self) -> Iterator[Scaled | Numbers]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) == "Normalize" and self._imported(call).startswith("torchvision."):
                yield from self._numbers(call)
        for division in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            image, divisor = (
                (division.left, division.right)
                if isinstance(division, ast.BinOp)
                else (division.target, division.value)
            )
            if isinstance(division.op, ast.Div) and isinstance(divisor, ast.Constant) and divisor.value in _LARGEST:
                yield from self._scaled(division, image)

    def _numbers(self, call: ast.Call) -> Iterator[Numbers]:
        """The deviations of a normalization, if they are below 1 and divided by 255."""
        given = written.argument(call, 1, "std")
        numbers_of = written.value_of(given, self.model.definitions) if given is not None else None
        if not isinstance(numbers_of, (ast.ListComp, ast.GeneratorExp)) or len(numbers_of.generators) != 1:
            return
        element = numbers_of.elt
        divisor = element.right if isinstance(element, ast.BinOp) and isinstance(element.op, ast.Div) else None
        source = written.value_of(numbers_of.generators[0].iter, self.model.definitions)
        items = source.elts if isinstance(source, (ast.List, ast.Tuple)) else []
        values = [numbers.literal(item) for item in items]
        if isinstance(divisor, ast.Constant) and divisor.value in _LARGEST and values:
            if all(value is not None and value <= 1 for value in values):
                yield Numbers(python_ast.site_of(numbers_of))

    def _scaled(self, division: ast.expr | ast.stmt, image: ast.expr) -> Iterator[Scaled]:
        source = _source(image)
        name = python_ast.dotted(source)
        if isinstance(source, ast.Name):
            source = self._assigned(source, division) or source
        call = _transformed(source)
        if isinstance(source, ast.Name):
            made = self._of_loader(source)
        elif call is not None and not self._may_be_float(call, division):
            made = self._of_function(call.func)
        else:
            made = []
        steps = [step for item, file in made if (step := _scaling(item, file)) is not None]
        if made and len(steps) == len(made):
            _, file = made[0]
            first = python_ast.site_of(steps[0]) if file is self.model.definitions else None
            yield Scaled(python_ast.site_of(division), first, name or self.model.tree.code(image))

    def _assigned(self, name: ast.Name, division: ast.AST) -> ast.expr | None:
        """The value that the last assignment before a division gives a variable of the function."""
        function = self.model.tree.function_around(division)
        found: ast.expr | None = None
        for node in names.own_nodes(function) if function is not None else ():
            if isinstance(node, ast.Assign) and node.lineno < getattr(division, "lineno", 0):
                targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
                if any(python_ast.dotted(item) == name.id for item in targets[:1]):
                    is_paired = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(targets)
                    found = node.value.elts[0] if isinstance(node.value, ast.Tuple) and is_paired else node.value
        inner = _source(found) if found is not None else None
        if isinstance(inner, ast.Subscript) and _is_image(inner) and isinstance(inner.value, ast.Name):
            return self._assigned(inner.value, inner)  # `img = augmented["image"]`
        return inner

    def _may_be_float(self, call: ast.Call, division: ast.AST) -> bool:
        """Whether the function converts the image to floats before its transform."""
        function = self.model.tree.function_around(division)
        before = (node for node in names.own_nodes(function) if isinstance(node, ast.Assign)) if function else ()
        return any(node.lineno < call.lineno and _FLOAT.search(self.model.tree.code(node.value)) for node in before)

    def _of_function(self, called: ast.expr) -> list[tuple[ast.expr, Definitions]]:
        """The expressions that create a transform: where it is assigned, or where callers pass it to `__init__`."""
        here = self.model.provenance.created(called)
        method = self.model.definitions.method_around(called)
        if here is not None or method is None or method.owner is None:
            return [(here, self.model.definitions)] if here is not None else []
        name = method.owner.name
        return self.model.provenance.given_by_callers(called, list(self.model.importers(name, (name.encode(),))))

    def _of_loader(self, image: ast.Name) -> list[tuple[ast.expr, Definitions]]:
        """The transform of the torchvision dataset from whose loader a loop takes its images."""
        loops = (item for item in self.model.tree.ancestors(image) if isinstance(item, (ast.For, ast.AsyncFor)))
        loop = next((item for item in loops if _first(item.target) == image.id), None)
        if loop is None or not _IMAGE.search(image.id):
            return []
        given = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
        loader = written.value_of(given, self.model.definitions)
        if not isinstance(loader, ast.Call) or self._imported(loader) not in datasets.LOADERS:
            return []
        data = written.argument(loader, 0, "dataset")
        made = written.value_of(data, self.model.definitions) if data is not None else None
        if not isinstance(made, ast.Call) or not self._imported(made).startswith("torchvision.datasets."):
            return []
        transform = next((item.value for item in made.keywords if item.arg == "transform"), None)
        return [(transform, self.model.definitions)] if transform is not None else []

    def _imported(self, call: ast.Call) -> str:
        return names.imported(call.func, self.model.definitions)

    def report_Numbers(self, found: Numbers) -> None:
        self.report(
            found.site,
            "this `std` is for images between 0 and 1: dividing it by 255 makes the input 255 times too large",
            help="remove the division",
        )

    def report_Scaled(self, found: Scaled) -> None:
        self.report(
            found.site,
            f"`{found.name}` is divided by 255 here, but its transform has already divided it",
            related=[(found.made, "this transform scales")] if found.made is not None else [],
            help="remove this division",
        )


def _source(image: ast.expr) -> ast.expr:
    """The image before changes of its type and place, and before copies: `img` of `torch.as_tensor(img.copy())`."""
    while isinstance(image, ast.Call):
        name = python_ast.called_name(image)
        if isinstance(image.func, ast.Attribute) and name in _SAME:
            image = image.func.value
        elif name in _COPIES and image.args:
            image = image.args[0]
        else:
            break
    return image


def _transformed(source: ast.expr) -> ast.Call | None:
    """The call to a transform: `self.transform(img)`, or that of `self.transform(image=img)["image"]`."""
    if isinstance(source, ast.Subscript) and not _is_image(source):
        return None
    call = source.value if isinstance(source, ast.Subscript) else source
    return call if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute)) else None


def _is_image(entry: ast.Subscript) -> bool:
    """Whether a subscript takes the image of a result of albumentations."""
    return isinstance(entry.slice, ast.Constant) and entry.slice.value == "image"


def _scaling(transform: ast.expr, file: Definitions) -> ast.expr | None:
    """The step of a transform that divides by 255, if no unknown step follows."""
    steps = transforms.steps_of(transform, file)
    kinds = [name for name, _ in steps]
    if "ToTensor" in kinds and all(kinds[kinds.index("ToTensor") :]) and "Lambda" not in kinds:
        return steps[kinds.index("ToTensor")][1]
    made = written.value_of(transform, file)
    items = made.args[0] if isinstance(made, ast.Call) and made.args else None
    for item in items.elts if isinstance(items, ast.List) else ():
        step = written.value_of(item, file)
        if isinstance(step, ast.Call) and _ALBUMENTATIONS.search(names.imported(step.func, file)):
            return None if any(given.arg == "max_pixel_value" for given in step.keywords) else step
    return None


def _first(target: ast.expr) -> str:
    """The first variable of a loop over batches: `x` of `for i, (x, y) in enumerate(loader)`."""
    while isinstance(target, ast.Tuple):
        inner = next((item for item in target.elts if isinstance(item, ast.Tuple)), None)
        target = inner if inner is not None else target.elts[0]
    return python_ast.dotted(target)
