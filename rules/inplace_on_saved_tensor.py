"""Tensors changed in place after autograd saved them for backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, Severity, repairs
from torchlint.model import events, program, values
from torchlint.model.queries import gradient_users, saved_tensors
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.queries.parameter_updates import ParametersChanged


class OldNameRead(NamedTuple):
    """`mutate` overwrites its argument, the variable `name`, and `read` reads it again under an old name.

    `opening` is the module that does so as the first layer of a `Sequential`.
    """

    mutate: events.Mutate
    name: str
    read: events.Read
    opening: python_ast.Site | None


class InplaceOnSavedTensor(Rule):
    """A tensor that autograd saved for backward is changed in place.

    ## What it does
    Finds tensors that are changed in place after an operator has saved them for `backward`, and before this `backward`
    runs. The change may be `+=`, `x[...] =`, `add_`, an in-place activation or `out=`, on the tensor or on a view of
    it. It may also be an optimizer step that changes the weights before the `backward` of another loss. torchlint knows
    from PyTorch which operators save their input or result.

    Also finds an in-place activation whose argument is read again later. The later code may expect the old values, but
    gets the new ones.

    ## Why is this bad?
    `backward` raises "one of the variables needed for gradient computation has been modified by an inplace operation".
    A change through `.data` or NumPy raises no error, but the gradient is wrong.

    ## Example
    ```python
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            gate = torch.sigmoid(self.linear(x))
            gate += 1
            return gate * x
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            gate = torch.sigmoid(self.linear(x))
            gate = gate + 1
            return gate * x
    ```

    ## Severity
    An error if `backward` raises or the gradient is silently wrong. A warning if code reads the argument of an in-place
    activation again.

    ## Fix safety
    The fix replaces the in-place operation with one that creates a new tensor, or clones the tensor before the change.
    It is unsafe because the new tensor needs memory. There is no fix in these cases:

    - Later code reads the tensor under another name, such as the list that it came from.
    - Some call of a layer with `inplace=True` ignores the result. With a new tensor, this call would do nothing.

    ## What verify shows
    `torchlint verify` confirms the finding if `backward` raises the error about the tensor that this line changed. It
    refutes the finding if several backward passes after the change work without an error.

    ## Known limits
    - torchlint does not know which tensors an unknown module saves, or which parameters an unknown optimizer holds.
    - torchlint follows a change through a NumPy array only if it knows that the array and the tensor share memory.
    - `x *= 2` changes a tensor in place, but not a plain number. If torchlint does not know the type of `x`, it reports
      the line only if something shows that `x` is a tensor, such as an annotation or a method that only tensors have.

    ## References
    - [In-place correctness checks](https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks)
    """

    code = "TL301"
    category = Category.CORRECTNESS

    triggers = ((b"torch",), (*triggers.BACKWARD, b"forward", b"requires_grad", b"Module", b"training_step", b"nn."))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.changes_tensors

    def ask(self) -> Iterator[saved_tensors.SavedTensorChanged | ParametersChanged | OldNameRead]:
        for changed in saved_tensors.SavedTensors(self.model.program, self.model.tracking, self.model.torch).changed():
            mutate = changed.mutate
            if not self._may_be_out_of_place(mutate) and not self._is_drawn(mutate) and self._may_train(mutate):
                yield changed
        for crossed in self.model.parameter_updates.across_backward():
            is_dragged = crossed.backward.order < crossed.step.order
            if not is_dragged and not self.model.retained_graphs.hides_state(crossed.backward):
                yield crossed  # else retain-graph-in-loop or undetached-hidden-state says what the cause is
        yield from self._old_names_read()

    def _old_names_read(self) -> Iterator[OldNameRead]:
        """In-place activations whose argument is read again as if unchanged."""
        sites = self.model.program.observations.in_place_results
        tree = self.model.tree
        for trace in self.model.program.traces:
            for mutate in trace.of(events.Mutate):
                written = sites.get(mutate.result) if isinstance(mutate.result, values.Tensor) else None
                if not isinstance(written, ast.Name) or tree.stands_alone(tree.node(mutate.site)):
                    continue
                read = self._read_after(mutate, trace)
                if read is not None and not self._may_be_out_of_place(mutate):
                    yield OldNameRead(mutate, written.id, read, self._opening(mutate))

    def _may_be_out_of_place(self, mutate: events.Mutate) -> bool:
        """Whether a module is configured in-place, and some code sets that flag: `layer.inplace = False`."""
        observations = self.model.program.observations
        if mutate.result not in observations.in_place_modules and mutate.result not in observations.in_place_results:
            return False
        return any(True for _ in self.model.stores_of("inplace"))

    def _may_train(self, mutate: events.Mutate) -> bool:
        """Whether not all calls of the function, in other files, run with gradients off."""
        around = self.model.definitions.function_around(self.model.tree.node(mutate.site))
        is_own = around is not None and mutate.site.inner is None and not mutate.calls
        return not is_own or around is None or not gradient_users.is_only_run_without_gradients(around.name, self.model)

    def _is_drawn(self, mutate: events.Mutate) -> bool:
        """Whether the call draws its module from a list, `self.layers[i](x)`: another one may receive the tensor."""
        tree = self.model.tree
        call = tree.node(mutate.site)
        if mutate.result not in self.model.program.observations.in_place_modules or not isinstance(call, ast.Call):
            return False
        if isinstance(call.func, ast.Subscript):
            return bool(python_ast.names_read(call.func.slice))
        loops = (item for item in tree.ancestors(call) if isinstance(item, (ast.For, ast.AsyncFor)))
        return isinstance(call.func, ast.Name) and any(
            call.func.id in python_ast.names_bound(item.target) for item in loops
        )

    def _opening(self, mutate: events.Mutate) -> python_ast.Site | None:
        opening = self.model.program.observations.openings.get(mutate.result)
        return opening.site if opening is not None else None

    def _read_after(self, mutate: events.Mutate, trace: program.Trace) -> events.Read | None:
        later = (read for read in trace.reads.get(mutate.target, ()) if read.order > mutate.order)
        return next((read for read in later if not events.apart(read, mutate)), None)

    def report_SavedTensorChanged(self, changed: saved_tensors.SavedTensorChanged) -> None:
        what = "result" if changed.result else "input"
        through = f"`{changed.operator}`" if changed.certain else "both operations"
        outcome = "gradients are silently wrong" if changed.silent else f"a `backward` through {through} raises"
        self.report(
            changed.mutate.site,
            f"this in-place operation changes the {what} of `{changed.operator}`, which autograd saved: {outcome}",
            related=[(changed.saver.site, "it is saved here")],
            help="use the out-of-place form, or change a `clone()`",
            fix=None if changed.silent else repairs.out_of_place(self.model, self.nodes, changed.mutate),
        )

    def report_ParametersChanged(self, crossed: ParametersChanged) -> None:
        self.report(
            crossed.step.site,
            f"`{crossed.step.name}` updates parameters that a later `backward` still needs: that `backward` raises",
            related=[
                (crossed.saver.site, "the forward pass uses them here"),
                (crossed.backward.site, "the later `backward` is here"),
            ],
            help="step after both backward passes, or run the forward pass again after the step",
        )

    def report_OldNameRead(self, read: OldNameRead) -> None:
        related = [(read.read.site, "it is read again here")]
        if read.opening is not None:
            related.insert(0, (read.mutate.site, "it is called here"))
        again = "again below" if read.read.name == read.name else f"below as `{read.read.name}`"
        self.report(
            read.opening or read.mutate.site,
            f"this overwrites `{read.name}` in place, and it is read {again} as if unchanged",
            related=related,
            help="drop `inplace=True`",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            fix=repairs.out_of_place(self.model, self.nodes, read.mutate),
        )
