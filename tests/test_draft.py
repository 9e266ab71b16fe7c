"""A draft shows the rules what the parsed file shows them: the same nodes, and findings in the same files."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from torchlint import Category, Rule, Selection, SourceFile, lint, registry, walk
from torchlint.draft import NoDraft, draft
from torchlint.model import Model
from torchlint.syntax import Tree, children

ROOT = Path(__file__).parent.parent
FIXTURES = sorted((ROOT / "fixtures").glob("*/*.py"))
BUILT_IN = [rule for rule in registry.rules() if rule.__module__.startswith("torchlint.rules.")]
STRINGS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)

STATEMENTS = """\
import a; import a.b.c as d, e
from . import f
from ..g.h import i as j, k
from l import *
if a: b = 1; c = 2
elif d: pass
else:
    if e:
        f()
    elif g: h()
    else: pass
if a:
    pass
else:
    if b: pass
    c
for a, *b in c: break
else: pass
async def f(a, b: int = 1, /, c=2, *d: str, e, f=3, **g) -> None:
    async for a in b: continue
    async with a as b, c as (d, e): await f
    return [x async for x in y]
def g(*, a, b=1): yield; x = yield a; yield from b
def h(a, /): global b, c; return
@a.b(c)
@d
class C(A[int], *b, metaclass=M, **k):
    x: int
    y: int = 1
    def f(self):
        nonlocal x
while (a := b): ...
while a: pass
else: b
with (a as b, c): d
with open(f) as g, \\
     open(h): pass
try: a
except: b
try:
    a
except (A, B) as e:
    b
except C: c
else: d
finally: e
try: a
finally: b
raise
raise A from b
assert a, "b"
del a
del a, b[0]
del (a, b)
a = b = c, = d
a += 1; a -= 1; a *= 1; a /= 1; a @= 1; a **= 1; a %= 1; a //= 1; a <<= 1; a >>= 1; a |= 1; a ^= 1; a &= 1
"""
EXPRESSIONS = """\
a.b.c(d)(*e, f, *g, h=1, *i, j=2, **k)
f(x for x in y)
a + b - c * d / e @ f ** g % h // i << j >> k | l ^ m & n
-a, +a, ~a, not a
a and b and (c and d) or not e or f
a == b != c < d <= e > f >= g is h is not i in j not in k
a[0], a[b, c], a[(b, c)], a[b:c:d, ..., :, None], a[()], a[(b), c], a[(b), (c)], a[b,], a[-1], a["k"]
a[(b, c),], a[(b), c:], a[f(b, (c)), d], a[(
    b, c)]
a if b else c
lambda: 0, lambda a, *b, c=1, **d: a, lambda *, a: a
[], [a, *b], (), (a,), {a}, {}, {a: b, **c}
[a for b in c if d if e for f in g], {a for a in b}, {a: b for a, b in c}, (a for a in b)
1, 0x1F, 1_000, 1.5, 1e-3, 1e400, 2j, True, None, ...
'a', r"\\d", b"c", 'it\\'s', \"""long
text\""", "zwölf"
f"{a}{b!r:>{c}} {{d}}", f"{x[0]:.3f}"
"a" "b", "a" f"{b}", ("a"
"b")
"""


def literal(node: cst.CSTNode) -> object:
    if isinstance(node, (cst.Integer, cst.Float, cst.Imaginary)):
        return complex(node.value) if node.value == "inf" else complex(literal_eval(node.value))
    return node.value if isinstance(node, cst.Name) else node.star if isinstance(node, cst.Arg) else None


def string(node: cst.SimpleString | cst.ConcatenatedString | cst.FormattedString) -> object:
    return None if isinstance(node, cst.FormattedString) else node.evaluated_value


def parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    """What is in a node; in a string the expressions, whatever literals it is made of."""
    if isinstance(node, cst.ConcatenatedString):
        return parts(node.left) + parts(node.right)
    return [child for child in children(node) if not isinstance(child, cst.FormattedStringText)]


def meaning(node: cst.CSTNode) -> tuple[object, object, list[Any]]:
    """A tree without layout."""
    inner = [meaning(part) for part in parts(node)]
    if isinstance(node, STRINGS):
        return "string", string(node), inner
    return type(node), literal(node), inner


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_draft_of_a_fixture_is_what_is_parsed(path: Path) -> None:
    text = SourceFile(str(path), path.read_bytes()).text
    assert meaning(draft(text)) == meaning(cst.parse_module(text))


@pytest.mark.parametrize("code", [STATEMENTS, EXPRESSIONS, "", "\ufeffx = 1\r\ny = 2\r\n", "if x:\n\x0c\tpass\n"])
def test_a_draft_has_all_that_python_can_say(code: str) -> None:
    assert meaning(draft(code.removeprefix("\ufeff"))) == meaning(cst.parse_module(code))


@pytest.mark.parametrize(
    "code", ["def f(:", "x = 1\n  y = 2", "match x:\n    case 1: pass", "x = '\ud800'", "(" * 300 + ")" * 300]
)
def test_what_python_does_not_read_has_no_draft(code: str) -> None:
    with pytest.raises(NoDraft):
        draft(code)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rules_find_something_in_a_draft_if_they_do_in_the_file(path: Path) -> None:
    source = SourceFile(str(path), path.read_bytes())

    def finds(rule: type[Rule], model: Model) -> bool:
        found = rule(model)
        try:
            found.visit_Module(model.tree.module)  # type: ignore[attr-defined]
        except AttributeError as error:
            assert "object has no attribute" in str(error), "only layout is missing, for the fix of a finding"
            return True
        return bool(found.reports)

    written, drafted = (Model(Tree(module, source)) for module in (cst.parse_module(source.text), draft(source.text)))
    for rule in BUILT_IN:
        assert finds(rule, drafted) == finds(rule, written), rule


def test_a_file_without_findings_is_not_parsed_by_libcst(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(source: SourceFile, pieces: object) -> Tree:
        parsed.append(source.path)
        return Tree(cst.parse_module(source.text), source)

    monkeypatch.setattr(walk, "parse", parse)
    for name in ("good", "bad"):
        path = ROOT / "fixtures" / "missing_zero_grad" / f"{name}.py"
        lint(SourceFile(name, path.read_bytes()), Selection((*BUILT_IN,)))
    assert parsed == ["bad"]


def test_a_rule_of_a_plugin_sees_how_code_is_written() -> None:
    class HexNumber(Rule):
        """A number is written in hexadecimal digits."""

        code = "XX1"
        category = Category.CORRECTNESS

        def visit_Integer(self, node: cst.Integer) -> None:
            if node.value.startswith("0x"):
                self.report(node, "hexadecimal")

    assert [found.message for found in lint(SourceFile("a.py", b"x = 0x10\n"), Selection((HexNumber,)))] == [
        "hexadecimal"
    ]
