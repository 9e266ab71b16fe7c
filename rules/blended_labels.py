"""Masks of class numbers that are resized by interpolation, or scaled to fractions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, transforms, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MASK = LazyPattern(r"(?i)(?:^|_)(?:mask|label|seg|gt|target|annotation)s?(?:_|$)")
_SPLINES = frozenset(
    f"scipy.ndimage{module}.{name}" for module in ("", ".interpolation") for name in ("zoom", "rotate")
)
_HARMLESS = frozenset({"shape", "astype", "copy"})
_PASSING = frozenset({"from_numpy", "zoom", "rotate"})


class Blended(NamedTuple):
    """The call at `site` changes class numbers of `name`, which become integers at `use`. `advice` repairs it."""

    site: Site
    use: Site
    name: str
    is_scaled: bool
    """Whether the call divides them by 255. Otherwise it interpolates."""
    advice: str


class BlendedLabels(Rule):
    """A mask of class numbers is interpolated, or divided by 255.

    ## What it does
    Finds masks that become integers with `long()` after a call that changes their class numbers:

    - `cv2.resize` without `interpolation`;
    - `zoom` and `rotate` of `scipy.ndimage` without `order=0`;
    - reported only with `--preview`: `ToTensor` or `to_tensor`, which divide images by 255. This is right for masks
      that hold only 0 and 255.

    Reported only if the name of the call's result or argument says that it is a mask. Not reported: masks that the
    function compares, rounds or multiplies afterwards.

    ## Why is this bad?
    Between the classes 0 and 4, interpolation creates a border of the classes 1, 2 and 3. `ToTensor` turns class 4 into
    0.016, which `long()` cuts to 0, so all pixels are background. Neither raises an error.

    ## Example
    ```python
    import cv2
    import torch

    def load(path):
        mask = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
        mask = cv2.resize(mask, (256, 256))
        return torch.from_numpy(mask).long()
    ```

    Use instead:
    ```python
    import cv2
    import torch

    def load(path):
        mask = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
        mask = cv2.resize(mask, (256, 256), interpolation=cv2.INTER_NEAREST)
        return torch.from_numpy(mask).long()
    ```

    ## References
    - [torchvision.transforms.ToTensor](https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html)
    """

    code = "TL639"
    category = Category.CORRECTNESS
    triggers = ((b"resize", b"ToTensor", b"to_tensor", b"zoom", b"rotate"), (b"long", b"int64"), (b"torch",))

    def ask(self) -> Iterator[Blended]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            is_scaled, is_zoomed = self._scales(call), self._zooms(call)
            if not is_scaled and not is_zoomed and not _interpolates(call):
                continue
            name = self._mask(call)
            use = (self._use(call, name) or (self._late_use(call, name) if is_zoomed else None)) if name else None
            if use is not None:
                advice = "use `torch.from_numpy`" if is_scaled else "pass `interpolation=cv2.INTER_NEAREST`"
                advice = "pass `order=0`" if is_zoomed else advice
                yield Blended(python_ast.site_of(call), python_ast.site_of(use), name, is_scaled, advice)

    def _zooms(self, call: ast.Call) -> bool:
        """Whether SciPy interpolates: `zoom(mask, factor)`, whose default is a cubic spline."""
        if names.imported(call.func, self.model.definitions) not in _SPLINES:
            return False
        place = 5 if python_ast.called_name(call) == "rotate" else 3
        order = written.argument(call, place, "order")
        is_written_out = not any(item.arg is None for item in call.keywords)
        return is_written_out and (order is None or (isinstance(order, ast.Constant) and order.value != 0))

    def _late_use(self, call: ast.Call, name: str) -> ast.AST | None:
        """The same, if code between only reads the shape of the mask, or makes it a tensor of the same name."""
        scope, statement = self.model.tree.function_around(call), self.model.tree.parent(call)
        if scope is None or not isinstance(statement, ast.Assign) or python_ast.dotted(statement.targets[0]) != name:
            return None
        found: ast.AST | None = None
        for node in names.own_nodes(scope):
            if not isinstance(node, (ast.Name, ast.Attribute)) or python_ast.dotted(node) != name:
                continue
            if (node.lineno, node.col_offset) <= python_ast.end_of(call):
                continue
            around = self.model.tree.parent(node)
            if isinstance(around, ast.Attribute) and around.attr == "long":
                found = found or around
            elif isinstance(node, ast.Name) and not written.is_load(node):
                if not isinstance(around, ast.Assign) or not _is_from_numpy(around.value, name):
                    return None
            elif isinstance(around, ast.Attribute) and around.attr in _HARMLESS:
                continue
            elif not isinstance(around, ast.Call) or python_ast.called_name(around) not in _PASSING:
                return None
        return found

    def _scales(self, call: ast.Call) -> bool:
        """Whether a call divides an image by 255: `to_tensor(mask)`, or a `Compose` that ends with `ToTensor`."""
        definitions = self.model.definitions
        if names.imported(call.func, definitions) == "torchvision.transforms.functional.to_tensor":
            return True
        if not isinstance(call.func, (ast.Name, ast.Attribute, ast.Call)) or len(call.args) != 1:
            return False
        steps = transforms.steps_of(call.func, definitions)
        return bool(steps) and steps[-1][0] == "ToTensor"

    def _mask(self, call: ast.Call) -> str:
        """The name of the mask that a call receives or returns."""
        statement = self.model.tree.statement(call)
        target = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        nodes = (item for given in call.args[:1] for item in python_ast.walk(given))
        given = [python_ast.dotted(item) for item in nodes if isinstance(item, (ast.Name, ast.Attribute))]
        return next((name for name in (target, *given) if _MASK.search(name.rpartition(".")[2])), "")

    def _use(self, call: ast.Call, name: str) -> ast.AST | None:
        """The place that turns a mask into integers after a call, if nothing else uses the mask between."""
        scope = self.model.tree.function_around(call)
        around = list(names.own_nodes(scope)) if scope is not None else []
        uses = [
            node for node in around
            if isinstance(node, (ast.Name, ast.Attribute)) and written.is_load(node)
            and python_ast.dotted(node) == name and (node.lineno, node.col_offset) > python_ast.end_of(call)
        ]  # fmt: skip
        parent = self.model.tree.parent(call)
        if isinstance(parent, ast.Attribute) and parent.attr == "long":
            return parent
        if not isinstance(parent, ast.Assign) or python_ast.dotted(parent.targets[0]) != name or len(uses) != 1:
            return None
        return next((item for item in self._around(uses[0]) if _is_integer(item)), None)

    def _is_of_program(self, call: ast.Call) -> bool:
        """Whether a call is of a function of the program, which may make the mask binary again."""
        package = names.imported(call.func, self.model.definitions).partition(".")[0]
        return bool(call.args) and isinstance(call.func, ast.Name) and package not in ("torch", "numpy", "builtins")

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The calls around a node, up to the first other expression."""
        for item in self.model.tree.ancestors(node):
            if not isinstance(item, (ast.Call, ast.Attribute)):
                return
            if isinstance(item, ast.Call) and self._is_of_program(item):
                return
            yield item

    def report_Blended(self, found: Blended) -> None:
        how = "divides the classes of `{}` by 255" if found.is_scaled else "interpolates between the classes of `{}`"
        self.report(
            found.site,
            f"this {how.format(found.name)}, and `long()` truncates the result",
            related=[(found.use, "here the mask becomes integers")],
            confidence=Confidence.LOW if found.is_scaled else Confidence.HIGH,
            help=found.advice,
        )


def _is_from_numpy(value: ast.expr, name: str) -> bool:
    """Whether a value is the tensor of an array: `torch.from_numpy(mask.astype(np.float32))`."""
    calls = {python_ast.called_name(item) for item in python_ast.walk(value) if isinstance(item, ast.Call)}
    return "from_numpy" in calls and calls <= {"from_numpy", "astype", "copy"} and name in python_ast.names_read(value)


def _interpolates(call: ast.Call) -> bool:
    is_cv2 = python_ast.dotted(call.func) == "cv2.resize" and len(call.args) == 2
    return is_cv2 and not any(item.arg in ("interpolation", None) for item in call.keywords)


def _is_integer(node: ast.AST) -> bool:
    """Whether a call turns a tensor or array into integers: `x.long()`, `torch.tensor(x, dtype=torch.long)`."""
    if not isinstance(node, ast.Call):
        return False
    given = [python_ast.dotted(item) for item in python_ast.arguments(node)]
    return python_ast.called_name(node) in ("long", "LongTensor") or bool(
        {"torch.long", "torch.int64", "np.int64"} & set(given)
    )
