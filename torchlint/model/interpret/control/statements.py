"""The upper layer of the interpreter: statements and their effects on names, grad mode and the order of events."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import FunctionInfo
from torchlint.model.events import Exit, Keep, Keeping, Returned, Uncalled
from torchlint.model.heap import Change
from torchlint.model.interpret.control.aside import Aside
from torchlint.model.interpret.control.assignments import Assignments
from torchlint.model.interpret.control.branches import Branches
from torchlint.model.interpret.control.contexts import Contexts
from torchlint.model.interpret.control.functions import Functions
from torchlint.model.interpret.control.loops import Loops
from torchlint.model.interpret.expressions.expressions import Expressions
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import key_of
from torchlint.model.interpret.transfer.grad_modes import decorated_mode
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.scopes import imported_by
from torchlint.model.values import (
    Class,
    Container,
    Context,
    Function,
    Instance,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.model.wrappers import fills_table
from torchlint.pytorch import naming
from torchlint.pytorch.api import GRADIENTS
from torchlint.pytorch.effects import GradMode
from torchlint.pytorch.table import ACTING_METHODS
from torchlint.syntax.python_ast import called_name, dotted, site_of

_ENDING = frozenset({"exit", "quit", "sys.exit", "os._exit", "os.abort"})
"""Functions that end the program."""
_LAST_NAMES = frozenset(name.rpartition(".")[2] for name in _ENDING)


class Statements(Part):
    """The parts of the layer in the order of their dependencies, and the statements that need no part of their own."""

    def __init__(self, machine: Machine, transfer: Transfer, expressions: Expressions) -> None:
        super().__init__(machine)
        self.attributes = transfer.attributes
        self.containers = transfer.containers
        self.names = expressions.names
        self.subscripts = expressions.subscripts
        self.targets = expressions.targets
        self.functions = Functions(machine)
        self.aside = Aside(machine, transfer.objects, self.functions)
        self.assignments = Assignments(machine, transfer, expressions)
        self.branches = Branches(machine, expressions.conditions)
        self.loops = Loops(machine, transfer.elements, self.targets)
        self.contexts = Contexts(machine, expressions.calls, self.targets)

    def runners(self) -> dict[type[ast.AST], Callable[..., None]]:
        """The method that runs each kind of statement."""
        runners: dict[type[ast.AST], Callable[..., None]] = {
            ast.Expr: self._expression, ast.Assign: self.assignments.assign,
            ast.AnnAssign: self.assignments.annotated, ast.AugAssign: self.assignments.augmented,
            ast.If: self.branches.run_if, ast.Match: self.branches.run_match, ast.Try: self.branches.run_try,
            ast.For: self.loops.run_for, ast.AsyncFor: self.loops.run_for, ast.While: self.loops.run_while,
            ast.With: self._with, ast.AsyncWith: self._with,
            ast.FunctionDef: self._function, ast.AsyncFunctionDef: self._function, ast.ClassDef: self._class,
            ast.Return: self._return, ast.Raise: self._raise, ast.Break: self._break, ast.Continue: self._continue,
            ast.Import: self._import, ast.ImportFrom: self._import,
            ast.Global: self._global_names, ast.Nonlocal: self._global_names,
            ast.Delete: self._del, ast.Assert: self._assert,
        }  # fmt: skip
        if sys.version_info >= (3, 11):
            runners[ast.TryStar] = self.branches.run_try
        return runners

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Attribute) and node.value.attr in ACTING_METHODS:
            owner = resolved(self.machine.value(node.value.value))
            self.attributes.read(owner, node.value.attr, node.value)
            self.state.emit(Uncalled(site_of(node.value), node.value.attr, owner))
            return
        value = self.machine.value(node.value)
        if isinstance(value, Tensor) and isinstance(node.value, ast.Call):
            self.observations.discarded.append(value)
        if isinstance(node.value, ast.Call) and self._ends_program(node.value):
            self._leave(Exit.RAISE)

    def _ends_program(self, call: ast.Call) -> bool:
        """Whether a call ends the program: `sys.exit()`, or Python's `exit()`."""
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _LAST_NAMES:
            return False
        name = self.definitions.named(call.func)
        return name in _ENDING and self.definitions.defined(name) is None

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        """Run a block in its contexts; if a test expects an error, drop the events, as the block may stop anywhere."""
        if not any(map(_expects_error, node.items)):
            self._enter(list(node.items), node)
            return
        with self.state.at(self.state.position, []):
            self._enter(list(node.items), node)
        self.state.alive = True

    def _enter(self, items: list[ast.withitem], node: ast.With | ast.AsyncWith) -> None:
        """Enter these contexts, nested, and run the block inside them."""
        if not items:
            self.machine.run(node.body)
            return
        item, inner = items[0], items[1:]
        if self.contexts.manage(item, lambda: self._enter(inner, node)):
            return
        with self.state.block():
            context = self.machine.value(item.context_expr)
            entered = self.contexts.entered(context, item)
            if isinstance(context, Context):
                self.state.mode = context.mode
            elif entered is None and may_switch_gradients(context):
                self.state.mode = GradMode.UNKNOWN
            if item.optional_vars is not None:
                bound = entered or (context if not isinstance(context, Context) else Plain(item))
                self.targets.assign(item.optional_vars, bound)
            self._enter(inner, node)
            if entered is not None:
                self.contexts.left(context, item)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        info = self.definitions.functions[node]
        function = self.state.stamp(Function(info, self.state.frame, mode=decorated_mode(info, self.state)))
        self.observations.defined[info] = function
        self.state.bind(node.name, function)
        self._register(node, function)

    def _class(self, node: ast.ClassDef) -> None:
        made = self.state.stamp(Class(self.definitions.classes[node], self.state.frame))
        self.state.bind(node.name, made)
        self._register(node, made)

    def _register(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, defined: Value) -> None:
        """Decorators of the program that register their argument in a table: `@MODELS.register("net")`."""
        for decorator in node.decorator_list if self.state.frame.parent is None else ():
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self._registers(named):
                callee = resolved(self.machine.value(decorator))
                if isinstance(callee, Function) and self.state.can_inline(callee.info):
                    self.machine.inline(callee, Arguments([defined], {}, []), decorator)

    def _registers(self, decorator: ast.expr) -> bool:
        """Whether a decorator is a function of the program, or a method of its objects, that fills a table."""
        if isinstance(decorator, ast.Attribute) and isinstance(decorator.value, ast.Name):
            owner = resolved(self.machine.value(decorator.value))
            method = owner.info.method(decorator.attr) if isinstance(owner, Instance) else None
            return method is not None and fills_table(method)
        found = self.definitions.defined(decorator.id) if isinstance(decorator, ast.Name) else None
        return isinstance(found, FunctionInfo) and fills_table(found)

    def _return(self, node: ast.Return) -> None:
        value = self.machine.value(node.value) if node.value is not None else Plain(node, None)
        self.state.frame.returns.append(value)
        if not self.state.position.calls:
            self.state.emit(Returned(site_of(node), value))
        self._leave(Exit.RETURN)

    def _leave(self, way: Exit) -> None:
        if way is Exit.RETURN:
            self.state.frame.ends.append(self.state.leaving(self.state.frame.blocks))
        self.state.items.append(way)
        self.state.alive = False

    def _raise(self, node: ast.Raise) -> None:
        self._leave(Exit.RAISE)

    def _break(self, node: ast.Break) -> None:
        for scope in self.state.position.scopes[-1:]:
            scope.breaks.append(self.state.leaving(scope.blocks))
        self._leave(Exit.BREAK)

    def _continue(self, node: ast.Continue) -> None:
        for scope in self.state.position.scopes[-1:]:
            scope.ends.append(self.state.leaving(scope.blocks))
        self._leave(Exit.CONTINUE)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Bind the local names of an import in a function; those of the module are known from the start."""
        for name, target in imported_by(node):
            frame = self.state.frame
            if frame.parent is not None and name != "*" and name not in frame.outer_names:
                frame.locals[name] = self.names.imported(target, node)

    def _global_names(self, node: ast.Global | ast.Nonlocal) -> None:
        self.state.frame.outer_names.update(node.names)

    def _del(self, node: ast.Delete) -> None:
        for target in node.targets:
            for item in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(item, ast.Subscript):
                    self._del_elements(item)
                elif isinstance(item, ast.Attribute):
                    self._del_attribute(item, resolved(self.machine.value(item.value)))
                else:
                    self.state.frame.locals.pop(dotted(item), None)

    def _del_attribute(self, target: ast.Attribute, owner: Value) -> None:
        if target.attr in GRADIENTS:
            self.attributes.clear_gradient(target, owner)
        self.state.heap.pop((owner, target.attr), None)

    def _del_elements(self, target: ast.Subscript) -> None:
        """`del saved[:]`, `del recent[0]`: the container drops items, as with `clear` and `pop`."""
        container = resolved(self.machine.value(target.value))
        for item in inputs_of(container):
            self.state.change(item, Change.TAKEN, target)
        if isinstance(container, Container):
            self.containers.take_out(container, key_of(self.subscripts.index(target)), target)
        container.used_as("pop")
        self.state.emit(Keep(site_of(target), container, Plain(target), Keeping.CLEAR, ""))

    def _assert(self, node: ast.Assert) -> None:
        self.machine.value(node.test)
        if isinstance(node.test, ast.Constant) and not node.test.value:
            self._leave(Exit.RAISE)


def may_switch_gradients(context: Value) -> bool:
    """Whether entering an unknown context may set the grad mode, by its possible values or by its name."""
    if isinstance(context, Phi):
        return any(isinstance(item, Context) for item in inputs_of(context))
    callee = context.callee if isinstance(context, Unknown) else None
    return callee is not None and bool(naming.SWITCHES_GRADIENTS.search(callee.label))


def _expects_error(item: ast.withitem) -> bool:
    """`with pytest.raises(RuntimeError):`, `with self.assertRaises(ValueError):`."""
    call = item.context_expr
    return isinstance(call, ast.Call) and called_name(call) in ("raises", "assertRaises", "assertRaisesRegex")
