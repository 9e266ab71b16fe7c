"""The base of an interpreter's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.model.definitions import Definitions
from torchlint.model.observations import Observations
from torchlint.model.state import State
from torchlint.syntax.python_ast import Visit

if TYPE_CHECKING:
    from torchlint.model.evaluate.assignments import Assignments
    from torchlint.model.evaluate.attributes import Attributes
    from torchlint.model.evaluate.branches import Branches
    from torchlint.model.evaluate.builtin_functions import BuiltinFunctions
    from torchlint.model.evaluate.calls import Calls
    from torchlint.model.evaluate.classes import Classes
    from torchlint.model.evaluate.conditions import Conditions
    from torchlint.model.evaluate.containers import Containers
    from torchlint.model.evaluate.contexts import Contexts
    from torchlint.model.evaluate.decorators import Decorators
    from torchlint.model.evaluate.elements import Elements
    from torchlint.model.evaluate.expressions import Expressions
    from torchlint.model.evaluate.externals import Externals
    from torchlint.model.evaluate.frameworks import Frameworks
    from torchlint.model.evaluate.functions import Functions
    from torchlint.model.evaluate.interpreter import Interpreter
    from torchlint.model.evaluate.loops import Loops
    from torchlint.model.evaluate.methods import Methods
    from torchlint.model.evaluate.modules import Modules
    from torchlint.model.evaluate.names import Names
    from torchlint.model.evaluate.periods import Periods
    from torchlint.model.evaluate.statements import Statements
    from torchlint.model.evaluate.sums import Sums
    from torchlint.model.evaluate.tensors import Tensors
    from torchlint.model.evaluate.torch_functions import TorchFunctions
    from torchlint.model.evaluate.training import Training


class Part:
    """One kind of work: it shares the state with the other parts of its interpreter, and reaches them by name."""

    own: Definitions
    """Those of the module that is linted."""
    state: State
    visit: Visit
    observations: Observations

    assignments: Assignments
    attributes: Attributes
    branches: Branches
    builtin_functions: BuiltinFunctions
    calls: Calls
    classes: Classes
    conditions: Conditions
    containers: Containers
    contexts: Contexts
    decorators: Decorators
    elements: Elements
    expressions: Expressions
    externals: Externals
    frameworks: Frameworks
    functions: Functions
    loops: Loops
    methods: Methods
    modules: Modules
    names: Names
    periods: Periods
    statements: Statements
    sums: Sums
    tensors: Tensors
    torch_functions: TorchFunctions
    training: Training

    @property
    def definitions(self) -> Definitions:
        """Those of the module that is under way."""
        return self.state.frame.definitions

    def connect(self, interpreter: Interpreter) -> None:
        """Make the other parts known to this one, once all are made."""
        for name, part in vars(interpreter).items():
            setattr(self, name, part)  # unlike an update of `vars(self)`, that leaves attributes quick to read
        self.prepare()

    def prepare(self) -> None:
        """Make the table of handlers, where there is one: the other parts are known."""
