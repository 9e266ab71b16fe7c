"""Every node that the model may name is found again in the file as it is written."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import libcst as cst
import pytest

from tests.thinning import thinned
from torchlint import SourceFile
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import Site, site_of
from torchlint.syntax.python_tree import PythonTree
from torchlint.syntax.reading import read
from torchlint.syntax.tree import parse

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*/bad.py"))
FORMS = """
@decorate(1)
@plain
class C(Base, metaclass=Meta):
    def method(self, a, /, b=f(0), *args, c=g(1), **kwargs) -> None:
        x = y = call(a, *args, key=value, **kwargs)
        x[0], x[1:2, ::3] = (a and b and c), [d or e, *rest]
        x[a, b] += -1 if a < b <= c else not d
        del x[0], y
        return lambda z=h(2): (yield z)

async def coroutine():
    async with open(a) as b, open(c):
        async for i in await d:
            yield from_(i)
    return [i async for i in j if k for l in m]

if a: b(); c = 1
elif d:
    e(f"{g(h)} {i:{j}}")
else:
    try:
        {k: v, **w}; {1, 2}
    except (A, B) as error:
        raise C(error) from error
    else:
        assert (n := f(m)), text
    finally:
        global x
        print(n)
while True:
    for i, (j, k) in pairs: break
    else: continue
with (a as b, c): pass
match command:
    case [1, 2]: go(x)
"""
_UNASKED = (ast.Module, ast.arguments, ast.arg, ast.ExceptHandler, ast.match_case, ast.pattern, ast.FormattedValue)
_STRANGE = (ast.JoinedStr, ast.pattern, ast.arg, ast.Delete)


def trees(text: str) -> tuple[PythonTree, Nodes]:
    source = SourceFile("x.py", text.encode())
    python = read(source)
    return python, Nodes(python, parse(source))


def is_asked_for(python: PythonTree, node: ast.AST) -> bool:
    """Whether the model can name a node: not one inside of a pattern, an annotation or a string."""
    parent = python.parent(node)
    if isinstance(node, _UNASKED) or (isinstance(node, ast.Tuple) and isinstance(parent, ast.Subscript)):
        return False
    for item, around in pairwise([node, *python.ancestors(node)]):
        if isinstance(item, _STRANGE) or item in (
            getattr(around, "returns", None),
            getattr(around, "annotation", None),
        ):
            return False
    return True


@pytest.mark.parametrize("text", thinned([FORMS, *(path.read_text("utf-8") for path in FIXTURES)], every=8))
def test_each_node_is_found_where_it_stands(text: str) -> None:
    python, nodes = trees(text)
    wanted = [node for node in python.nodes if is_asked_for(python, node)]
    found = {node: written for node in wanted if (written := nodes.at(site_of(node))) is not None}
    assert [ast.unparse(node) for node in wanted if node not in found] == []
    spans = nodes.tree.spans(list(found.values()))
    for node, written in found.items():
        if isinstance(node, (ast.Call, ast.Name, ast.Attribute, ast.BinOp, ast.AugAssign, ast.Assign, ast.Subscript)):
            assert python.span(site_of(node)).start == spans[written].start, ast.unparse(node)


def test_a_decorator_is_found_with_its_sign() -> None:
    python, nodes = trees("import torch\n\n@torch.no_grad( )\ndef f():\n    pass\n")
    function = python.module.body[1]
    assert isinstance(function, ast.FunctionDef)
    site = python.decorator_site(function.decorator_list[0])
    assert isinstance(nodes.at(site), cst.Decorator)
    assert python.span(site).start.column == 0


def test_columns_are_code_points() -> None:
    python, _ = trees("s = 'é'; f(x)\n")
    call = next(node for node in python.nodes if isinstance(node, ast.Call))
    assert python.span(site_of(call)).start.column == 9
    assert site_of(call).column == 10


def test_a_node_of_another_kind_is_none() -> None:
    python, nodes = trees("f(x)\n")
    assert nodes.at(None) is None
    call = next(node for node in python.nodes if isinstance(node, ast.Call))
    other = Nodes(python, parse(SourceFile("x.py", b"y.z\n")))
    assert other.at(site_of(call)) is None


def test_what_no_parser_agrees_on_has_no_site() -> None:
    python, _ = trees("x = 1\n")
    with pytest.raises(KeyError):
        python.node(Site("Call", 9, 9, 9, 9))
