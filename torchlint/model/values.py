"""Abstract values: the meaning of expressions, as nodes of a static-single-assignment graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from torchlint.model.value import Origin as Origin
from torchlint.model.value import Value as Value
from torchlint.pytorch.effects import GradMode

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo, FunctionInfo
    from torchlint.model.frames import Frame


class Answer(Enum):
    """Three-valued truth: a rule reports only on YES."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        raise TypeError("compare an Answer with `is`")

    @staticmethod
    def any_of(answers: Iterable[Answer]) -> Answer:
        """YES if one of them is YES, else UNKNOWN if one of them is."""
        found = Answer.NO
        for answer in answers:
            if answer is Answer.YES:
                return Answer.YES
            if answer is Answer.UNKNOWN:
                found = Answer.UNKNOWN
        return found


FILLED = "an argument of an unknown function"
"""A use of a list or dictionary: unknown code may have added items."""
_NO_CONSTANT = object()
_DRAWN = "[drawn "


class Plain(Value):
    """A value that is no tensor: a Python number, string, None, bool; with its value if it is a literal."""

    __slots__ = ("constant",)

    def __init__(self, node: Origin, constant: object = _NO_CONSTANT, label: str = "") -> None:
        super().__init__(node, (), label)
        self.constant = constant

    @property
    def is_literal(self) -> bool:
        return self.constant is not _NO_CONSTANT

    @property
    def is_none(self) -> bool:
        return self.constant is None


class Unknown(Value):
    """Base of values that the module does not define: a parameter, a part or the result of a call of an unknown.

    `callee` is the called value, `mode` the grad mode of the call.
    """

    __slots__ = ("callee", "mode")

    origin: ClassVar[str]
    """The word that `trace` prints for the class."""

    def __init__(
        self,
        node: Origin,
        parents: tuple[Value, ...] = (),
        label: str = "",
        callee: Value | None = None,
        mode: GradMode = GradMode.ON,
    ) -> None:
        super().__init__(node, parents, label)
        self.callee = callee
        self.mode = mode


class Parameter(Unknown):
    """A parameter of a function without a caller that gives its value."""

    __slots__ = ()
    origin = "parameter"


class UndefinedName(Unknown):
    """A name that the module uses but does not define."""

    __slots__ = ()
    origin = "global"


class Attribute(Unknown):
    """An attribute of a value."""

    __slots__ = ()
    origin = "attribute"


class Element(Unknown):
    """An element of a value."""

    __slots__ = ()
    origin = "element"


class Iteration(Unknown):
    """An element that a loop over a value has in one iteration."""

    __slots__ = ()
    origin = "iteration"


class BoundMethod(Unknown):
    """A method of a value, as a callee."""

    __slots__ = ()
    origin = "method"


class Gradient(Unknown):
    """The `.grad` of a value."""

    __slots__ = ()
    origin = "grad"


class CallResult(Unknown):
    """The result of a call."""

    __slots__ = ()
    origin = "call"


class UnknownObject(Unknown):
    """An object of a class that the module does not define."""

    __slots__ = ()
    origin = "object"

    @property
    def class_name(self) -> str:
        """The name of its class; empty if not known."""
        return self.callee.label if self.callee is not None else ""


class Super(Unknown):
    """The result of `super()` with an unknown base class."""

    __slots__ = ()
    origin = "super"


class SentValue(Unknown):
    """The value that a consumer sends into a generator."""

    __slots__ = ()
    origin = "sent"


class UnsupportedExpression(Unknown):
    """The value of an expression that is not interpreted."""

    __slots__ = ()
    origin = "expression"


class External(Value):
    """Something imported, by its qualified name: `torch.nn.functional.relu`."""

    __slots__ = ("name",)

    def __init__(self, node: Origin, name: str) -> None:
        super().__init__(node, (), name.rpartition(".")[2])
        self.name = name


class SourceModule(External):
    """A module of the repository: a followed file, or a folder of such files."""

    __slots__ = ("base",)

    def __init__(self, node: Origin, name: str, base: str) -> None:
        super().__init__(node, name)
        self.base = base
        """Its path, without a suffix."""


class Tensor(Value):
    """The result of a tensor operator, or a leaf. `base` is the tensor whose storage it shares.

    `op` is the name of the operator, for example one of `torchlint.pytorch.operators`. For a tensor without an
    operator it is the word that `trace` prints for its class.
    """

    __slots__ = ("base", "leaf", "mode", "op")

    def __init__(
        self,
        node: Origin,
        op: str,
        parents: tuple[Value, ...] = (),
        mode: GradMode = GradMode.ON,
        *,
        base: Value | None = None,
        leaf: bool = False,
    ) -> None:
        super().__init__(node, parents)
        self.op = op
        self.mode = mode
        self.base = base
        self.leaf = leaf

    def made_again(self, node: Origin, mode: GradMode) -> Tensor:
        """Another tensor computed in the same way, with its own storage."""
        return Tensor(node, self.op, self.parents, mode)


class WithoutOperator(Tensor):
    """Base of tensors that no PyTorch operator created."""

    __slots__ = ()
    word: ClassVar[str]
    """The word that `trace` prints for the class."""

    def __init__(
        self,
        node: Origin,
        parents: tuple[Value, ...] = (),
        mode: GradMode = GradMode.ON,
        *,
        base: Value | None = None,
        leaf: bool = False,
    ) -> None:
        super().__init__(node, self.word, parents, mode, base=base, leaf=leaf)

    def made_again(self, node: Origin, mode: GradMode) -> Tensor:
        return type(self)(node, self.parents, mode)


class ModuleOutput(WithoutOperator):
    """The output of a module; `parents` are the module and its inputs.

    `body` is the return value of the `forward` of a module of this file for any arguments, and `given` the arguments
    of this call.
    """

    __slots__ = ("body", "given")
    word = "module"

    def __init__(self, node: Origin, parents: tuple[Value, ...], mode: GradMode = GradMode.ON) -> None:
        super().__init__(node, parents, mode)
        self.body: Value | None = None
        self.given: Mapping[str, Value] = {}


class Component(WithoutOperator):
    """One of several results of a module: `out[0]`, `out.loss`; `parents` hold the output of the module."""

    __slots__ = ()
    word = "component"


class Leaf(WithoutOperator):
    """A tensor that requires gradients; with `leaf` unset, a module whose parameters require them."""

    __slots__ = ()
    word = "leaf"


class ModuleParameter(WithoutOperator):
    """A parameter of a module, which is its parent."""

    __slots__ = ()
    word = "parameter"


class NewTensor(WithoutOperator):
    """A tensor without a history that requires no gradients."""

    __slots__ = ()
    word = "new"


class Phi(Value):
    """One of several values: after branches, or (with `loop`) the initial value and the last iteration's.

    `arms` gives the branch arms in which an input is the value; `source` is the list that it is an element of.
    """

    __slots__ = ("arms", "is_keyed", "loop", "source")

    def __init__(self, node: Origin, inputs: tuple[Value, ...], loop: object = None) -> None:
        super().__init__(node, inputs, inputs[0].label if inputs else "")
        self.loop = loop
        self.source: Container | None = None
        self.is_keyed = False
        """Whether it is the element of `source` with a certain but unknown key."""
        self.arms: dict[Value, set[tuple[object, int]]] = {}

    @property
    def is_loop(self) -> bool:
        return self.loop is not None


class Container(Value):
    """Base of lists, dictionaries and similar containers; `parents` are the values stored without a known key."""

    __slots__ = ("bounded", "branches", "grown", "is_open", "unsure")

    def __init__(self, node: Origin, items: tuple[Value, ...] = (), bounded: bool = False) -> None:
        super().__init__(node, items)
        self.bounded = bounded
        self.grown = False
        """Whether the program adds items after its creation."""
        self.branches = 0
        """The number of branch arms that create a list."""
        self.unsure = False
        """Whether an option decides on its items, so that the first one is unknown."""
        self.is_open = False
        """Whether it has more items than known, as `[first] + others` does."""

    def add(self, value: Value) -> None:
        self.parents = (*self.parents, value)
        self.grown = True

    def draw_from(self, sources: Sequence[Value]) -> None:
        """Record the values that provide the elements, as for `zip(xs, ys)`."""
        self.set_parts({f"{_DRAWN}{number}]": source for number, source in enumerate(sources)})

    def element_at(self, key: object) -> Value | None:
        """The element at an index, counted from either end; None for an unknown index or element."""
        if self.is_open or not isinstance(key, int) or not -len(self.parents) <= key < len(self.parents):
            return None
        return self.parents[key]

    def elements(self) -> list[Value]:
        """All known contents."""
        return [*self.parents, *self.entries.values()]

    @property
    def known_options(self) -> dict[str, Value]:
        """The entries of a dictionary passed by `**`."""
        return {str(key): value for key, value in self.entries.items()}

    @property
    def entries(self) -> dict[object, Value]:
        """The values known by key, without the stand-ins for unknown elements."""
        parts = self.known_parts.items()
        return {key: value for key, value in parts if not (isinstance(key, str) and key.startswith("["))}


class List(Container):
    """A list."""

    __slots__ = ()


class Tuple(Container):
    """A tuple, or a record with named fields."""

    __slots__ = ()


class Set(Container):
    """A set."""

    __slots__ = ()


class Dict(Container):
    """A dictionary."""

    __slots__ = ()


class Deque(Container):
    """A `collections.deque`; a `bounded` one drops its oldest elements."""

    __slots__ = ("limit",)

    def __init__(self, node: Origin, limit: int | None, bounded: bool) -> None:
        super().__init__(node, bounded=bounded)
        self.limit = limit
        """`maxlen`, where it is a literal number."""


class Generator(Container):
    """Values produced one by one: by a generator, `zip`, `items()`."""

    __slots__ = ()


class Meter(Container):
    """An `AverageMeter`: a sum of the values passed to `update`."""

    __slots__ = ()


class Object(Container):
    """The attributes of an object of a class of this program, as the contents of a container."""

    __slots__ = ()


class Slot(Value):
    """The value stored last in a container, with its index and path; it is never a value of the program."""

    __slots__ = ("path",)

    def __init__(self, node: Origin, index: Value, value: Value, path: tuple[tuple[object, int], ...]) -> None:
        super().__init__(node, (index, value))
        self.path = path


class Function(Value):
    """A function or method of this module, bound to `receiver` if it is a method.

    A `bare` function is the argument of its decorators.
    """

    __slots__ = ("bare", "frame", "info", "mode", "receiver")

    def __init__(
        self,
        info: FunctionInfo,
        frame: Frame | None,
        receiver: Value | None = None,
        mode: GradMode | None = None,
        *,
        bare: bool = False,
    ) -> None:
        super().__init__(info.node, () if receiver is None else (receiver,), info.name)
        self.bare = bare
        self.info = info
        self.frame = frame
        self.receiver = receiver
        self.mode = mode


class Class(Value):
    """A class of this module."""

    __slots__ = ("frame", "info")

    def __init__(self, info: ClassInfo, frame: Frame | None) -> None:
        super().__init__(info.node, (), info.name)
        self.info = info
        self.frame = frame


class Instance(Value):
    """An object of a class of this module that is neither a module nor an optimizer."""

    __slots__ = ("info",)

    def __init__(self, node: Origin, info: ClassInfo, parents: tuple[Value, ...] = (), label: str = "") -> None:
        super().__init__(node, parents, label)
        self.info = info


class Module(Value):
    """A `torch.nn.Module`: of a class of this module (`info`), or by its qualified name."""

    __slots__ = ("info", "inplace", "name")

    def __init__(
        self,
        node: Origin,
        name: str,
        parents: tuple[Value, ...] = (),
        info: ClassInfo | None = None,
        inplace: bool = False,
    ) -> None:
        super().__init__(node, parents)
        self.name = name
        self.info = info
        self.inplace = inplace

    def made_again(self, node: Origin) -> Module:
        """Another module created in the same way."""
        return Module(node, self.name, self.parents, self.info, self.inplace)


class Optimizer(Value):
    """A `torch.optim.Optimizer`, perhaps of a class of this module (`info`); `parents` hold its parameters."""

    __slots__ = ("info", "name")

    def __init__(self, node: Origin, name: str, parents: tuple[Value, ...] = (), info: ClassInfo | None = None) -> None:
        super().__init__(node, parents)
        self.name = name
        self.info = info

    def made_again(self, node: Origin) -> Optimizer:
        """Another optimizer created in the same way."""
        return Optimizer(node, self.name, self.parents, self.info)


class Parameters(Value):
    """The parameters of a module: the iterator, or a list made from it."""

    __slots__ = ()


class Context(Value):
    """The result of `torch.no_grad()` and similar functions; entering it sets the grad mode."""

    __slots__ = ("mode",)

    def __init__(self, node: Origin, mode: GradMode) -> None:
        super().__init__(node)
        self.mode = mode


def inputs_of(value: Value) -> Iterator[Value]:
    """The value itself, or the inputs of a Phi, also of nested ones, each once."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, Phi):
            stack.extend(reversed(current.parents))
        else:
            yield current


def drawn_from(value: Value) -> Iterator[Value]:
    """The values over which a loop iterates; for `zip` and `enumerate`, the values from which they draw."""
    for item in inputs_of(value):
        yield item
        for key, part in item.known_parts.items():
            if isinstance(key, str) and key.startswith(_DRAWN):
                yield from drawn_from(part)


def is_none(value: Value | None) -> bool:
    """Whether a value is known, and surely None."""
    return isinstance(value, Plain) and value.is_none


def meanings(value: Value) -> Iterator[Value]:
    """The possible values, without None."""
    return (item for item in inputs_of(value) if not is_none(item))


def resolved(value: Value) -> Value:
    """A Phi with a single meaning (`opt = None` first, the optimizer later) as that meaning."""
    if not isinstance(value, Phi):
        return value
    found = list(islice(meanings(value), 2))
    return found[0] if len(found) == 1 else value


def class_of(value: Value) -> ClassInfo | None:
    """The class of this module that a value is an instance of (or the class itself)."""
    if isinstance(value, (Instance, Module, Class)):
        return value.info
    return None


def owner_label(value: Value) -> str:
    """The name of a value, or of the container it is an element of."""
    while value.label.startswith("[") and value.parents:
        value = value.parents[0]
    return value.label
