"""The claim of a finding about a running program: statements, blocks, names and containers."""

from __future__ import annotations

import pytest

from torchlint.finding import Finding, Position, Related, Severity, Span
from torchlint.verify.claims import Claim, claim


def made(source: str, rule: str, marker: str = "#!", related: tuple[str, ...] = ()) -> Claim:
    """The claim of a finding on the line that holds `marker`, related to lines that hold other texts."""
    lines = source.splitlines()

    def span(text: str) -> Span:
        number = next(number for number, line in enumerate(lines, 1) if text in line)
        line = lines[number - 1]
        return Span(Position(number, len(line) - len(line.lstrip())), Position(number, len(line)))

    others = tuple(Related(span(text), "") for text in related)
    finding = Finding("train.py", rule, "TL000", "", span(marker), Severity.ERROR, related=others)
    return claim(0, finding, "/train.py", source.encode())


@pytest.mark.parametrize(
    ("statement", "names", "container"),
    [
        ("losses.append(loss)", {("losses",), ("loss",)}, ("losses",)),
        ("self.losses.append(loss)", {("self", ".losses"), ("loss",)}, ("self", ".losses")),
        ("history['train'].append(loss)", {("history", "'train"), ("loss",)}, ("history", "'train")),
        ("logs[0].append({'loss': loss})", {("logs", "=0"), ("loss",)}, ("logs", "=0")),
        ("total += loss", {("total",), ("loss",)}, ("total",)),
        ("total = total + loss * 2", {("total",), ("loss",)}, ("total",)),
        ("state.total = state.total + loss", {("state", ".total"), ("loss",)}, ("state", ".total")),
        ("sums[name] += loss", {("sums",), ("name",), ("loss",)}, ("sums",)),
        ("meter.update(loss.mean(), len(x))", {("meter",), ("loss",), ("len",), ("x",)}, ("meter",)),
        ("out = torch.cat([out, loss[None]])", {("out",), ("torch",), ("loss",)}, ("out",)),
    ],
)
def test_what_is_kept_and_where(statement: str, names: set[tuple[str, ...]], container: tuple[str, ...]) -> None:
    found = made(f"for x in data:\n    {statement}  #!\n", "undetached-accumulation")
    assert set(found.names) == names
    assert found.container[0] == container


@pytest.mark.parametrize(
    ("statement", "resets"),
    [
        ("losses.clear()", True),
        ("losses = []", True),
        ("del losses[:]", True),
        ("losses = losses[-5:]", False),
        ("losses.sort()", False),
        ("other.clear()", False),
        ("self.losses = []", False),
    ],
)
def test_where_a_container_is_emptied(statement: str, resets: bool) -> None:
    """In the loop that fills it, and neither in one around that, nor in a function that is only made there."""
    filled = "        losses.append(loss)  #!\n"
    same = f"for e in range(9):\n    for x in data:\n{filled}        if full:\n            {statement}\n"
    assert made(same, "undetached-accumulation").resets == (((5, 5),) if resets else ())
    outer = f"for e in range(9):\n    for x in data:\n{filled}    {statement}\n"
    assert made(outer, "undetached-accumulation").resets == ()
    called = f"for e in range(9):\n    def keep(loss):\n{filled}    {statement}\n"
    assert made(called, "undetached-accumulation").resets == ()


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("h += 1", ("h",)),
        ("h[:, 0] = 0", ("h",)),
        ("self.h.mul_(2)", ("self", ".h")),
        ("F.relu(h, inplace=True)", ("h",)),
        ("h.view(-1).add_(1)", ("h",)),
        ("p.data.add_(p.grad)", ("p", ".data")),
        ("nn.init.zeros_(layer.weight)", ("layer", ".weight")),
    ],
)
def test_what_is_changed(statement: str, name: tuple[str, ...]) -> None:
    assert name in made(f"{statement}  #!\n", "inplace-on-saved-tensor").names


@pytest.mark.parametrize(
    ("rule", "statement", "names"),
    [
        ("discarded-result", "self.x.clamp(0)", (("self", ".x"),)),
        ("discarded-result", "model(x).clamp(0)", ()),
        ("scheduler-never-stepped", "self.s = StepLR(optimizer, 3)", (("self", ".s"),)),
        ("scheduler-never-stepped", "m, o, s = accelerator.prepare(m, o, s)", (("m",), ("o",), ("s",))),
        ("scheduler-before-optimizer", "self.s.step()", (("self", ".s"),)),
        ("module-created-in-forward", "x = nn.Linear(3, 3)(x)", (("x",),)),
        ("dropout-ignores-mode", "return F.dropout(x)", (("this",),)),
    ],
)
def test_what_a_rule_looks_at(rule: str, statement: str, names: tuple[tuple[str, ...], ...]) -> None:
    source = f"class A(nn.Module):\n    def forward(this, x):\n        'It.'\n        y = x\n        {statement}  #!\n"
    found = made(source, rule)
    assert found.names == names
    assert found.blocks == (((4, 4),) if rule == "module-created-in-forward" else ())


@pytest.mark.parametrize("marked", ["class A", "return gradient"])
def test_the_arity_of_a_function_shows_in_its_backward(marked: str) -> None:
    source = "class A(Function):\n    def forward(ctx, x):\n        return x\n\n    def backward(ctx, gradient):\n"
    found = made(f"{source}        return gradient\n", "backward-arity", marked)
    assert (found.names, found.reach) == ((("A",),), (6, 6))


def test_a_statement_of_several_lines_is_one() -> None:
    source = "def f():\n    losses.append(  #!\n        loss\n    )\n    return 1\n"
    found = made(source, "undetached-accumulation")
    assert (found.statement, found.scope) == ((2, 4), (2, 5))


def test_a_block_without_gradients() -> None:
    source = "def f():\n    with torch.no_grad():  #!\n        y = model(x)\n        z = 1\n    y.backward()\n"
    found = made(source, "training-under-no-grad")
    assert (found.statement, found.blocks) == ((2, 2), ((3, 4),))


def test_a_decorated_function_is_reached_when_it_runs() -> None:
    source = "class A:\n    @torch.no_grad()  #!\n    def f(self):\n        y = self.m(x)\n        return y\n"
    found = made(source, "training-under-no-grad")
    assert found.blocks == ((4, 5),)
    assert found.reach == (4, 5)


def test_a_switch_lasts_to_the_end_of_its_function() -> None:
    source = "def f():\n    torch.set_grad_enabled(False)  #!\n    y = model(x)\n    return y\n\ndef g(): pass\n"
    assert made(source, "training-under-no-grad").blocks == ((2, 4),)


def test_the_switch_of_a_related_line_counts() -> None:
    source = "with torch.no_grad():\n    y = model(x)\ny.backward()  #!\n"
    found = made(source, "training-under-no-grad", related=("no_grad",))
    assert found.blocks == ((2, 2),)
    assert found.lines == ((3, 3), (1, 1))


def test_a_source_that_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        made("def (  #!\n", "missing-zero-grad")
