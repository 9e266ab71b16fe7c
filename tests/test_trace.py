"""`torchlint trace`: what is told to people and to machines, and what happens to files that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.notebooks import notebook
from torchlint import Category, Rule, SourceFile
from torchlint.cli import cli
from torchlint.colours import painter
from torchlint.trace import trace
from torchlint.trace.text import render

HELPER = """\
import torch
from utils import helper

def train(model, loader, log):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        if log:
            helper(model)
        elif y is None:
            continue
        else:
            losses.append(loss)
        optimizer.step()
"""


def traced(code: str, name: str = "train.py") -> dict[str, Any]:
    """The JSON of a trace."""
    found: dict[str, Any] = json.loads(trace(SourceFile(name, code.encode())).json())
    return found


def rows(code: str, function: str = "train") -> list[dict[str, Any]]:
    return next(item["rows"] for item in traced(code)["functions"] if item["name"] == function)


def told(code: str, *, everything: bool = False) -> list[str]:
    """The text of a trace, without the head of the file."""
    text = render(trace(SourceFile("train.py", code.encode())), painter(False), everything=everything)
    return text.splitlines()[3:]


def torchlint(*arguments: str | Path, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(cli, ["trace", *map(str, arguments)], input=stdin)


# -- for people -----------------------------------------------------------------------------------------


def test_a_call_into_another_file_is_named_where_it_may_clear() -> None:
    """The whole text of a function: columns, arms of branches, exits of loops, and what is unknown."""
    assert told(HELPER) == [
        "train (line 4)",
        "  optimizer `optimizer`: `SGD` of line 5; holds `model` and nothing else",
        "   5:17  make      torch.optim.SGD(model.parameters(), 0.1)  no gradients yet in `optimizer`",
        "    7:5  for x, y in loader:",
        "   8:45    forward   model(x)",
        "    9:9    backward  loss.backward()                         for `optimizer`",
        "   10:9    if log:",
        "  11:13      call      helper(model)                         may clear the gradients of `optimizer`;",
        "                                                             `helper` is from another file",
        "   12:9    elif y is None:",
        "             continue",
        "           else:",
        "  15:13      keep      losses.append(loss)                   kept in `losses` with its graph",
        "   16:9    step      optimizer.step()                        of `optimizer`",
        "  unknown `model`: a parameter",
        "",
        "relation `gradients`",
        "  16:9  optimizer.step()  unknown: line 11 may change the gradients",
        "",
        "relation `held`",
        "  15:13  losses.append(loss)  `losses` holds the graphs of all iterations of the loop of line 7",
        "",
        "relation `mode`",
        "  8:45  model(x)  unknown: line 11 may switch the mode",
        "",
        "No answers here from the relations cadence, datasets, domain, layout, module_states, provenance,",
        "  terms.",
        "",
        "Not shown, because no rule depends on them: 1 event. --all shows them.",
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "with torch.no_grad():\n    kept.append(model(x))",
            "forward   model(x)               gradients off; no graph",
        ),
        ("torch.set_grad_enabled(flag)\nmodel(x)", "forward   model(x)  gradients on or off; perhaps no graph"),
        ("model(x).sum().backward(retain_graph=True)", "backward  model(x).sum().backward(retain_graph=True)"),
        ("for p in model.parameters():\n    p.grad = None", "clear     p.grad    of something that is not known"),
        ("yield x", "yield     yield x"),
        ("torch.nn.utils.clip_grad_norm_(w, 1)", "clip      torch.nn.utils.clip_grad_norm_(w, 1)"),
        ("print(w.grad)", "gradients  w.grad"),
        ("torch.cuda.empty_cache()", "cache     torch.cuda.empty_cache()"),
        ("torch.cuda.max_memory_allocated()", "memory    torch.cuda.max_memory_allocated()"),
        ("torch.autograd.set_detect_anomaly(True)", "anomaly   torch.autograd.set_detect_anomaly(True)  switched on"),
        ("torch.autograd.grad(loss, w)", "autograd  torch.autograd.grad(loss, w)  of `loss`; `.grad` stays as it is"),
        (
            "w = torch.zeros(2, requires_grad=True)\nw.add_(1)",
            "change    w.add_(1)  a leaf that requires grad in place",
        ),
        ("opt.step()\nopt.zero_grad()", "optimizer `opt`: a name that this file does not define; what it holds is"),
        ("[model(x) for x in data]", "repeat    [model(x) for x in data]"),
        ("model(x) if x else model(y)", "either    model(x) if x else model(y)"),
        ("match x:\n    case 1:\n        model(x)", "case 1:"),
        ("try:\n    model(x)\nexcept ValueError:\n    model(y)", "except:"),
        ("count = data.count\ncount += 1", "change    count += 1  `count` in place, if it is a tensor"),
        ("p.data -= 0.1 * p.grad", "step      p.data -= 0.1 * p.grad  of `p`, by hand"),
        (
            "data.state.optimizer.step()",
            "an attribute of `state`, an attribute of `data`, a parameter; what it holds is not",
        ),
        (
            "trainer.run(torch.mean(model(x)))",
            "may run a backward pass; `run` is a method of `trainer`, a name that this file",
        ),
    ],
)
def test_what_is_said_of(code: str, expected: str) -> None:
    inside = "".join(f"    {line}\n" for line in code.splitlines())
    text = "\n".join(told(f"import torch\ndef train(data):\n{inside}    x.step()\n"))
    assert expected.split()[0] in text and " ".join(expected.split()) in " ".join(text.split())


def test_functions_of_the_file_are_followed() -> None:
    code = """\
import torch

def clear(opt):
    opt.zero_grad()

def deep(n, model):
    deep(n - 1, model)
    model.zero_grad()

def unused():
    pass

def train(model, opt):
    while True:
        clear(opt)
        deep(3, model)
        model(1).backward()
        opt.step(lambda: model(2))
"""
    text = told(code)
    assert "   15:9    follow    clear(opt)" in text
    assert any(line.startswith("    4:5      clear     opt.zero_grad()") for line in text)
    assert "`deep` is not followed here: it calls itself" in " ".join(" ".join(text).split())
    assert text[-1] == "Not interpreted, because no rule could find anything there: unused."


def test_a_file_that_no_rule_looks_into_says_so_and_is_traced(tmp_path: Path) -> None:
    path = tmp_path / "quiet.py"
    path.write_text("def f(model, x):\n    x += 1\n    return model(x)\n", "utf-8")
    result = torchlint(path)
    assert result.exit_code == 0
    assert "No rule analyzes it, because none could find anything here." in result.stdout
    assert "forward   model(x)" in result.stdout


def test_what_makes_rules_silent_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_train.py").write_text(HELPER, "utf-8")
    (tmp_path / "torchlint.toml").write_text("ignore = ['missing-zero-grad']\n", "utf-8")
    result = torchlint(tmp_path / "test_train.py")
    head = " ".join(result.stdout.partition("\n\n")[0].split())
    assert "Rules that analyze it: step-without-backward" in head
    assert head.endswith("It is a test, where some rules report less. Rules that are off here: missing-zero-grad.")


def test_source_is_cut_and_cannot_command_a_terminal() -> None:
    code = f"def train(o):\n  o.zero_grad()\n  o.step({'x' * 200!r}, '数数', '\x07')\n\to = 1\n".replace(
        "\to = 1\n", ""
    )
    code += "  for 数 in o.parts['\\x1b[2J']:  # not this\n    o.step()\n"
    lines = told(code, everything=True)
    assert all(len(line) <= 100 for line in lines)
    assert any("…" in line for line in lines)
    assert any(line.endswith("for 数 in o.parts['\\x1b[2J']:") for line in lines)
    assert not {"\x07", "\x1b"} & set("".join(lines))


def test_source_of_several_lines_is_told_on_one() -> None:
    code = """\
def train(model, o):
    while (  # as long as it goes
        o.alive
    ):
        model(
            o.x,  # the input: (
            "two  spaces" \\
            "joined",
            [
                1,
            ],
        ).backward()
        o.step()
"""
    shown = "\n".join(told(code))
    assert "while (\n" in shown
    assert 'forward   model(o.x, "two  spaces" "joined", [1])\n' in shown


def test_an_unknown_call_is_told_once_and_clears_only_what_has_been_made() -> None:
    code = """\
import torch
from other import prepare, after

def train(model, x):
    prepare(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(x).backward()
    after(model, torch.mean(model(x)))
    optimizer.step()
"""
    text = " ".join(" ".join(told(code)).split())
    assert "prepare" not in text
    assert text.count("after(model") == 1
    assert "may run a backward pass, or clear the gradients of `optimizer`; `after` is from another file" in text


def test_a_step_of_what_nobody_knows_for_an_optimizer_is_told() -> None:
    code = """\
def train(data, solve, env, scheduler):
    data.loss(1).backward()
    solve.step()
    env.step(1)
    scheduler.step()
"""
    text = " ".join(" ".join(told(code)).split())
    assert "call solve.step() not recognized as the step of an optimizer; `solve` is a parameter" in text
    assert "env" not in text and "scheduler" not in text
    assert "unknown: the result of `loss`, a method of `data`" in text


def test_what_is_cleared_but_never_steps_may_be_a_module() -> None:
    text = told("def train(net):\n    net.zero_grad()\n    for p in net.parameters():\n        p.data -= p.grad\n")
    assert "  optimizer or module `net`: a parameter; what it holds is not known" in text


def test_everything() -> None:
    shown, everything = told(HELPER), told(HELPER, everything=True)
    assert not any("operator" in line for line in shown)
    assert any("operator  torch.nn.functional.mse_loss(model(x), y)" in line for line in everything)


# -- for machines ---------------------------------------------------------------------------------------


def test_places_and_answers() -> None:
    """Lines and columns count from 0, columns in code points; a row says what it stands in."""
    code = """\
def train(model, o):
    é = "数"; o.zero_grad()
    while True:
        model(é).backward()
        o.step()
"""
    found = {row["kind"]: row for row in rows(code)}
    assert found["clear"] == {
        "depth": 0, "kind": "clear", "at": [1, 13], "target": "o@0:0", "clears": {"o@0:0": "yes"}
    }  # fmt: skip
    assert found["loop"] == {"depth": 0, "kind": "loop", "at": [2, 4], "form": "while"}
    assert found["backward"]["reaches"] == {"o@0:0": "unknown"}
    assert found["step"]["loops"] == ["2:4"] and found["step"]["depth"] == 1
    assert traced(code)["values"]["o@0:0"] == {
        "kind": "unknown", "label": "o", "at": [0, 0], "origin": "parameter", "tracked": "unknown"
    }  # fmt: skip


def test_branches_calls_and_modes() -> None:
    code = """\
import torch

def forward(model, x):
    with torch.no_grad():
        return model(x)

def train(model, loader):
    for x in loader:
        if x is None:
            continue
        for _ in x:
            if x > 2:
                y = forward(model, x)
                y.backward()
"""
    kinds = [(row["depth"], row["kind"]) for row in rows(code)]
    assert kinds[:6] == [(0, "loop"), (1, "branch"), (2, "arm"), (3, "exit"), (2, "arm"), (1, "loop")]
    call = next(row for row in rows(code) if row.get("forward"))
    assert call["mode"] == "off"
    assert call["loops"] == ["7:4", "10:8"]
    assert call["path"] == ["11:12/0"]
    assert call["passed"] == ["8:8/0"]
    assert call["calls"] == ["12:20"]


def test_relations_answer_by_place() -> None:
    assert traced(HELPER)["answers"] == [
        {"relation": "gradients", "at": [15, 8], "text": "unknown: line 11 may change the gradients"},
        {
            "relation": "held",
            "at": [14, 12],
            "text": "`losses` holds the graphs of all iterations of the loop of line 7",
        },
        {"relation": "mode", "at": [7, 44], "text": "unknown: line 11 may switch the mode"},
    ]
    assert "answers" not in traced("def train(loss):\n    loss.backward()\n")


def test_a_relation_says_which_bound_it_has_reached() -> None:
    passes = "".join(f"    model(x + {number}).sum().backward()\n" for number in range(45))
    makes = "def train(model, x):\n    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    answers = traced(f"import torch\n{makes}{passes}    optimizer.step()\n")["answers"]
    texts = [answer["text"] for answer in answers if answer["relation"] == "gradients"]
    assert texts == ["unknown: more than 40 passes may change the gradients"]
    made = "".join(f"    layer{number} = torch.nn.Linear(4, 4)\n    layer{number}(x)\n" for number in range(52))
    answers = traced(f"import torch\ndef show(x, loss):\n{made}    loss.backward()\n")["answers"]
    unknown = [answer["text"] for answer in answers if answer["text"].startswith("unknown")]
    assert unknown == ["unknown: the function has more than 50 modules"] * 2


def test_every_id_has_a_value_and_equal_files_have_equal_traces() -> None:
    found = traced(HELPER)
    assert (
        trace(SourceFile("train.py", HELPER.encode())).json() == trace(SourceFile("train.py", HELPER.encode())).json()
    )
    mentioned = [row[name] for row in rows(HELPER) for name in ("loss", "value", "target", "optimizer") if name in row]
    assert mentioned and set(mentioned) <= found["values"].keys()
    assert "libcst" not in json.dumps(found) and "<torchlint" not in json.dumps(found)


def test_values_that_are_met_through_themselves() -> None:
    """`node = node.next` and unknowns without a name do not send the words in circles; parts of functions are told."""
    code = """\
def train(node, model):
    while node:
        node = node.next
        node.step(model(train.x))
        for item in make()(node)[0]:
            item = item[0] if item else node
            item.zero_grad()
            item.step()
"""
    assert told(code, everything=True)


def test_a_notebook_is_told_by_cell(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    cells = ["import torch\nmodel = torch.nn.Linear(2, 2)", "x = (", "%time model(1).backward()"]
    path.write_text(notebook(*cells), "utf-8")
    result = torchlint(path)
    assert result.exit_code == 2
    assert result.stderr == f"error: {path}:cell 2:1:5: '(' was never closed\n"
    lines = result.stdout.splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("cell")] == ["cell 3"] * 2
    found = json.loads(torchlint("--format", "json", path).stdout)[0]
    assert [row["at"] for row in found["functions"][0]["rows"] if row["kind"] == "backward"] == [[0, 6, 3]]


# -- the command ----------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_named_and_the_others_are_traced(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("model(x)\n", "utf-8")
    (tmp_path / "bad.py").write_text("ok = 1\nx = (\n", "utf-8")
    (tmp_path / "binary.py").write_bytes(b"x = 1\n\x00")
    names = ["bad.py", "binary.py", "none.py", ".", "good.py"]
    result = torchlint("--format", "json", *(tmp_path / name for name in names))
    assert result.exit_code == 2
    assert [Path(found["path"]).name for found in json.loads(result.stdout)] == ["good.py"]
    expected = [
        f"error: {tmp_path / 'bad.py'}:2:5: '(' was never closed",
        f"error: {tmp_path / 'binary.py'}:2:1: source contains NUL bytes",
        f"error: {tmp_path / 'none.py'}: No such file or directory",
        f"error: {tmp_path}: is a folder: name files",
    ]
    assert result.stderr.splitlines() == expected


def test_usage() -> None:
    assert torchlint().exit_code == 2
    assert torchlint("--format", "yaml", "a.py").exit_code == 2
    assert json.loads(torchlint("-", "--format", "json", stdin="x = 1\n").stdout)[0]["path"] == "<stdin>"
    page = torchlint("--help").stdout
    for taught in ("forward    a module", "may clear", "--all", "Exit codes:"):
        assert taught in page


def test_empty_and_deep_files() -> None:
    assert traced("")["functions"] == [{"name": "", "called": False, "optimizers": [], "rows": []}]
    deep = (
        "def train(o, x):\n    o.step()\n    if x:\n        pass\n" + "    elif x > 1:\n        o.zero_grad()\n" * 400
    )
    lines = told(deep)
    assert len(lines) > 800
    nested = "".join(f"{' ' * depth}for i in x:\n" for depth in range(1, 60))
    assert any("step" in line for line in told(f"def train(opt, x):\n{nested}{' ' * 60}opt.step()\n"))
    assert all(line[:13].strip().count(":") == 1 for line in lines if "elif" in line)


# -- rules that ask for more ----------------------------------------------------------------------------

EVALUATION = """\
from torch import nn

class Evaluation:
    def __init__(self):
        self.measure = nn.CrossEntropyLoss()

    def loss(self, x, y):
        return self.measure(x, y)

    def rate(self, x):
        return x
"""


def test_functions_that_call_what_a_rule_names() -> None:
    """Or what that has made, whatever its name."""

    class Asking(Rule):
        code = "ASK001"
        category = Category.PEDANTIC
        calls = frozenset({"CrossEntropyLoss"})

    source = SourceFile("evaluation.py", EVALUATION.encode())
    assert [function.name for function in trace(source).functions] == [""]
    assert [function.name for function in trace(source, [Asking]).functions] == [
        "",
        "Evaluation.__init__",
        "Evaluation.loss",
    ]


def test_what_is_clipped_and_to_which_bound() -> None:
    code = "import torch\ndef train(net, loss, top):\n    loss.backward()\n    torch.nn.utils.clip_grad_norm_({})\n"
    for arguments in ("net.parameters(), top", "max_norm=top, parameters=net.parameters()"):
        (clip,) = (row for row in rows(code.format(arguments)) if row["kind"] == "clip")
        assert (clip["parameters"].partition("@")[0], clip["bound"].partition("@")[0]) == ("<parameters>", "top")


SCALED = """\
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

def train(model, loader, plateau):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    scheduler = ReduceLROnPlateau(optimizer) if plateau else StepLR(optimizer, 1)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step(loss)
"""


def test_scalers_unscale_and_step_and_schedulers_step() -> None:
    """A scheduler's step that is given a loss does not go backward through it."""
    found = {row["kind"]: row for row in rows(SCALED) if row["kind"] in ("unscale", "step", "schedule-step")}
    optimizer, scaler = "optimizer@4:16", "scaler@5:13"
    assert (found["unscale"]["optimizer"], found["unscale"]["scaler"]) == (optimizer, scaler)
    assert (found["step"]["optimizer"], found["step"]["scaler"]) == (optimizer, scaler)
    assert found["schedule-step"]["by"] and "may_go_backward" not in found["schedule-step"]
    text = "\n".join(told(SCALED))
    assert "unscale   scaler.unscale_(optimizer)" in text and "schedule  scheduler.step(loss)" in text
