"""The lowest layer of the interpreter: the effects of callables, methods and attributes on values."""

from __future__ import annotations

from torchlint.model.interpret.machine import Machine
from torchlint.model.interpret.transfer.alternatives import Alternatives
from torchlint.model.interpret.transfer.attributes import Attributes
from torchlint.model.interpret.transfer.builtin_functions import BuiltinFunctions
from torchlint.model.interpret.transfer.containers import Containers
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.entered_contexts import EnteredContexts
from torchlint.model.interpret.transfer.externals import Externals
from torchlint.model.interpret.transfer.forwards import Forwards
from torchlint.model.interpret.transfer.frameworks import Frameworks
from torchlint.model.interpret.transfer.known_calls import KnownCalls
from torchlint.model.interpret.transfer.methods import Methods
from torchlint.model.interpret.transfer.module_methods import ModuleMethods
from torchlint.model.interpret.transfer.modules import Modules
from torchlint.model.interpret.transfer.objects import Objects
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.interpret.transfer.torch_functions import TorchFunctions
from torchlint.model.interpret.transfer.training import Training
from torchlint.model.interpret.transfer.unknown_calls import UnknownCalls


class Transfer:
    """The parts of the layer in the order of their dependencies."""

    def __init__(self, machine: Machine) -> None:
        self.alternatives = Alternatives(machine)
        self.unknown_calls = UnknownCalls(machine)
        self.objects = Objects(machine)
        self.forwards = Forwards(machine)
        self.tensors = Tensors(machine)
        self.attributes = Attributes(machine, self.tensors)
        self.elements = Elements(machine, self.tensors, self.attributes)
        self.containers = Containers(machine, self.elements)
        self.modules = Modules(machine, self.tensors, self.elements, self.forwards)
        training = Training(machine, self.tensors)
        self.methods = Methods(
            machine,
            tensors=self.tensors,
            attributes=self.attributes,
            containers=self.containers,
            modules=self.modules,
            training=training,
            module_methods=ModuleMethods(machine, self.tensors, self.elements),
            frameworks=Frameworks(machine),
            contexts=EnteredContexts(machine),
            alternatives=self.alternatives,
            unknown_calls=self.unknown_calls,
        )
        known_calls = KnownCalls(machine, self.tensors, training)
        self.externals = Externals(
            machine,
            self.tensors,
            self.elements,
            BuiltinFunctions(machine, self.tensors, self.attributes, self.elements),
            known_calls,
            TorchFunctions(machine, self.tensors, known_calls),
            self.unknown_calls,
        )
