"""The interpreter of a module: a state, and the parts that work on it."""

from __future__ import annotations

from torchlint.model.cases import Case
from torchlint.model.definitions import Definitions
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
from torchlint.model.evaluate.functions import MAX_STATEMENTS, Functions
from torchlint.model.evaluate.loops import Loops
from torchlint.model.evaluate.methods import Methods
from torchlint.model.evaluate.modules import Modules
from torchlint.model.evaluate.names import Names
from torchlint.model.evaluate.part import Part
from torchlint.model.evaluate.periods import Periods
from torchlint.model.evaluate.statements import Statements
from torchlint.model.evaluate.sums import Sums
from torchlint.model.evaluate.tensors import Tensors
from torchlint.model.evaluate.torch_functions import TorchFunctions
from torchlint.model.evaluate.training import Training
from torchlint.model.imports import Imports
from torchlint.model.observations import Observations
from torchlint.model.state import State
from torchlint.syntax.python_ast import Visit

MAX_REPETITION = 4
"""How often, on average, each statement of a module is interpreted; beyond that, calls are not followed."""


class Interpreter:
    """Runs statements abstractly, each once: loops through Phis, branches on copies of the state.

    A part reaches the others by the names that they have here.
    """

    def __init__(self, definitions: Definitions, imports: Imports | None = None, case: Case | None = None) -> None:
        self.own = definitions
        self.visit = Visit() if definitions.others is None else definitions.others.visit
        self.state = State(definitions, budget=MAX_STATEMENTS + MAX_REPETITION * definitions.tree.statements)
        self.observations = Observations()
        self.assignments = Assignments()
        self.attributes = Attributes()
        self.branches = Branches()
        self.builtin_functions = BuiltinFunctions()
        self.calls = Calls()
        self.classes = Classes()
        self.conditions = Conditions(case)
        self.containers = Containers()
        self.contexts = Contexts()
        self.decorators = Decorators()
        self.elements = Elements()
        self.expressions = Expressions()
        self.externals = Externals()
        self.frameworks = Frameworks()
        self.functions = Functions()
        self.loops = Loops()
        self.methods = Methods()
        self.modules = Modules()
        self.names = Names(imports)
        self.periods = Periods()
        self.statements = Statements()
        self.sums = Sums()
        self.tensors = Tensors()
        self.torch_functions = TorchFunctions()
        self.training = Training()
        self.state.before = self.attributes.before
        for part in vars(self).copy().values():
            if isinstance(part, Part):
                part.connect(self)
