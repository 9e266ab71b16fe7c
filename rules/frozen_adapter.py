"""Adapters that are loaded frozen, and then trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model import definitions
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

_LOADING = frozenset({"peft.PeftModel.from_pretrained", "peft.PeftModelForCausalLM.from_pretrained"})
_THAWING = (b"requires_grad", b"is_trainable", b"inference_mode", b"set_adapter", b"load_adapter", b"add_adapter")
"""Words of code that may train an adapter that was loaded frozen."""
_MERGING = frozenset({"merge_and_unload", "unload"})
_TRAINERS = frozenset({"Trainer", "Seq2SeqTrainer", "SFTTrainer"})


class Frozen(NamedTuple):
    """The adapter that `site` loads is frozen, and `training` trains the model."""

    site: python_ast.Site
    training: python_ast.Site


class FrozenAdapter(Rule):
    """An adapter is loaded for inference, and then trained.

    ## What it does
    Finds `PeftModel.from_pretrained(model, path)` without `is_trainable=True`, if the file passes the model to a
    trainer of transformers or trl and calls its `train()`.

    Not reported if the program merges the adapter, adds another one, or sets `requires_grad`.

    ## Why is this bad?
    PEFT loads adapters frozen. If the base model is frozen, too, no parameter is trained. The backward pass raises.
    With gradient checkpointing there is no error, but the loss never changes.

    ## Example
    ```python
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, Trainer

    def finetune(base, adapter, arguments, data):
        model = AutoModelForCausalLM.from_pretrained(base)
        model = PeftModel.from_pretrained(model, adapter)
        trainer = Trainer(model=model, args=arguments, train_dataset=data)
        trainer.train()
    ```

    Use instead:
    ```python
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, Trainer

    def finetune(base, adapter, arguments, data):
        model = AutoModelForCausalLM.from_pretrained(base)
        model = PeftModel.from_pretrained(model, adapter, is_trainable=True)
        trainer = Trainer(model=model, args=arguments, train_dataset=data)
        trainer.train()
    ```

    ## References
    - [PeftModel.from_pretrained](https://huggingface.co/docs/peft/package_reference/peft_model#peft.PeftModel.from_pretrained)
    """

    code = "TL347"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"PeftModel",), (b"from_pretrained",), (b".train(",))

    def ask(self) -> Iterator[Frozen]:
        text = self.model.tree.source.code
        if self.model.is_test or any(word in text for word in _THAWING):
            return
        for call in FileIndex.of(self.model.tree).calls_named("from_pretrained"):
            if self.model.definitions.named(call.func) in _LOADING and not _is_open(call):
                statement = self.model.tree.statement(call)
                target = statement.targets[0] if isinstance(statement, ast.Assign) else None
                if isinstance(target, ast.Name) and isinstance(statement, ast.Assign) and statement.value is call:
                    training = self._training(target)
                    if training is not None:
                        yield Frozen(python_ast.site_of(call), python_ast.site_of(training))

    def _training(self, target: ast.Name) -> ast.Call | None:
        """The `train()` of a trainer that receives the model, in the function that loads it, or in its caller."""
        function = self.model.definitions.function_around(target)
        if self._is_changed(target):
            return None
        places = [(self.model.tree.scope_around(target), target.id)]
        if function is not None and _returns(function, target.id):
            for call in FileIndex.of(self.model.tree).calls_named(function.name):
                statement = self.model.tree.statement(call)
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    places.append((self.model.tree.scope_around(call), statement.targets[0].id))
        for scope, name in places:
            for made in python_ast.walk(scope):
                if isinstance(made, ast.Call) and python_ast.called_name(made) in _TRAINERS:
                    given = written.argument(made, 0, "model")
                    if isinstance(given, ast.Name) and given.id == name and not _merges(scope):
                        return self._train(made, scope)
        return None

    def _is_changed(self, target: ast.Name) -> bool:
        """Whether the variable receives another model later, on the same path: merged, or with a new adapter."""
        same = (item for item in python_ast.walk(self.model.tree.scope_around(target)) if isinstance(item, ast.Name))
        later = [item for item in same if item.id == target.id and item.lineno > target.lineno]
        stores = [item for item in later if isinstance(item.ctx, ast.Store)]
        return any(not names.are_alternatives(item, target, self.model.tree) for item in stores)

    def _train(self, trainer: ast.Call, scope: ast.AST) -> ast.Call | None:
        """`trainer.train()`, on the variable of a trainer."""
        statement = self.model.tree.statement(trainer)
        name = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        calls = (item for item in python_ast.walk(scope) if isinstance(item, ast.Call))
        return next((item for item in calls if name and python_ast.dotted(item.func) == f"{name}.train"), None)

    def report_Frozen(self, found: Frozen) -> None:
        self.report(
            found.site,
            "this loads the adapter frozen, so training changes none of its parameters",
            related=[(found.training, "the model is trained here")],
            help="pass `is_trainable=True`",
        )


def _is_open(call: ast.Call) -> bool:
    """Whether a call has arguments that may make the adapter trainable."""
    return len(call.args) > 3 or any(item.arg in (None, "is_trainable", "config") for item in call.keywords)


def _returns(function: definitions.FunctionInfo, name: str) -> bool:
    ends = [item.value for item in python_ast.walk(function.node) if isinstance(item, ast.Return)]
    return bool(ends) and all(isinstance(item, ast.Name) and item.id == name for item in ends)


def _merges(scope: ast.AST) -> bool:
    """Whether code merges adapters, so that other parameters may be trained."""
    calls = (item for item in python_ast.walk(scope) if isinstance(item, ast.Call))
    return any(python_ast.called_name(item) in _MERGING for item in calls)
