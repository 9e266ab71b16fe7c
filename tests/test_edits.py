"""Edits on nodes, in code that is laid out in every way people do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst
import pytest

from torchlint import Safety, SourceFile
from torchlint.syntax import edits
from torchlint.syntax.tree import Tree, parse

Make = Callable[[Tree], list[edits.NodeEdit]]


def changed(text: str, make: Make) -> str | None:
    """A text after an edit; None if it cannot be made. What comes out must be Python."""
    tree = parse(SourceFile("file.py", text.encode()))
    change = edits.Change("change it", make(tree))
    fix = change.fix(tree, tree.spans(set(change.surroundings(tree))))
    if fix is None:
        return None
    after = tree.source.edited(fix.edits)
    parse(after)
    return after.text


def call(tree: Tree, name: str = "target") -> cst.Call:
    calls: Iterator[cst.Call] = tree.of_type(cst.Call)
    return next(node for node in calls if tree.code(node.func) == name)


def argument(tree: Tree) -> cst.Arg:
    arguments: Iterator[cst.Arg] = tree.of_type(cst.Arg)
    return next(node for node in arguments if tree.code(node).startswith("flag=True"))


def delete(tree: Tree) -> list[edits.NodeEdit]:
    return [edits.Delete(call(tree))]


def delete_argument(tree: Tree) -> list[edits.NodeEdit]:
    return [edits.Delete(argument(tree))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\ntarget()\nb()\n", "a()\nb()\n"),
        ("a()\ntarget()  # why\nb()\n", "a()\n# why\nb()\n"),
        ("a()\ntarget()", "a()\n"),
        ("a()\r\ntarget()  # why\r\nb()\r\n", "a()\r\n# why\r\nb()\r\n"),
        ("a(); target()\n", "a()\n"),
        ("target(); a()  # why\n", "a()  # why\n"),
        ("a(); target(); b()\n", "a(); b()\n"),
        ("if x: target()\n", "if x: pass\n"),
        ("if x: a(); target()\n", "if x: a()\n"),
        ("for x in y:\n    target()\n", "for x in y:\n    pass\n"),
        ("for x in y:\n    target()  # why\n", "for x in y:\n    pass  # why\n"),
        ("for x in y:\n    a()\n    target()\nb()\n", "for x in y:\n    a()\nb()\n"),
        ("if x:\n\ttarget()\n\ta()\n", "if x:\n\ta()\n"),
        ("a()\nif cuda.is_available():\n    target()\nb()\n", "a()\nb()\n"),
        ("a()\nif x:  # one\n    # two\n    target()  # three\nb()\n", "a()\n# one\n# two\n# three\nb()\n"),
        ("a()\nif pop():\n    target()\n", "a()\nif pop():\n    pass\n"),
        ("a()\nif x:\n    target()\nelse:\n    b()\n", "a()\nif x:\n    pass\nelse:\n    b()\n"),
        ("a()\nif x:\n    b()\nelif y:\n    target()\n", "a()\nif x:\n    b()\nelif y:\n    pass\n"),
        ("while x:\n    if y:\n        target()\n", "while x:\n    if y:\n        pass\n"),
        ("a()\ntarget(\n    1,  # one\n)\nb()\n", "a()\n# one\nb()\n"),
        ('a()\ntarget("# no comment")\nb()\n', "a()\nb()\n"),
        ("a()\n\f\ntarget()\nb()\n", "a()\n\f\nb()\n"),
    ],
)
def test_delete_a_statement(before: str, after: str) -> None:
    assert changed(before, delete) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(flag=True)\n", "f()\n"),
        ("f(flag=True,)\n", "f()\n"),
        ("f( flag=True )\n", "f()\n"),
        ("f(a, flag=True)\n", "f(a)\n"),
        ("f(a, flag=True, b=1)\n", "f(a, b=1)\n"),
        ("f(flag=True, b=1)\n", "f(b=1)\n"),
        ("f(\n    a,\n    flag=True,\n)\n", "f(\n    a,\n)\n"),
        ("f(\n    flag=True,\n    b=1,\n)\n", "f(\n    b=1,\n)\n"),
        ("f(\n    a,  # kept\n    flag=True,\n)\n", None),
        ("f(\n    a,\n    flag=True,  # kept\n)\n", "f(\n    a,  # kept\n)\n"),
        ("f(g(\n), flag=True)\n", "f(g(\n))\n"),
    ],
)
def test_delete_an_argument(before: str, after: str | None) -> None:
    assert changed(before, delete_argument) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@a\n@target()\n@b\ndef f(): pass\n", "@a\n@b\ndef f(): pass\n"),
        ("class C:\n    @target()  # why\n    def f(self): pass\n", "class C:\n    # why\n    def f(self): pass\n"),
        ("@target(\n    1\n)\ndef f(): pass\n", "def f(): pass\n"),
    ],
)
def test_delete_a_decorator(before: str, after: str) -> None:
    def make(tree: Tree) -> list[edits.NodeEdit]:
        return [edits.Delete(next(node for node in tree.of_type(cst.Decorator) if "target" in tree.code(node)))]

    assert changed(before, make) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with a, target(): pass\n", "with a: pass\n"),
        ("with target(), a as b:\n    pass\n", "with a as b:\n    pass\n"),
    ],
)
def test_delete_an_item_of_with(before: str, after: str) -> None:
    def make(tree: Tree) -> list[edits.NodeEdit]:
        return [edits.Delete(next(node for node in tree.of_type(cst.WithItem) if "target" in tree.code(node)))]

    assert changed(before, make) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\ntarget()\n", "a()\nnew()\ntarget()\n"),
        ("a()\n# about the target\n# and more\ntarget()\n", "a()\nnew()\n# about the target\n# and more\ntarget()\n"),
        ("a()  # not about it\ntarget()\n", "a()  # not about it\nnew()\ntarget()\n"),
        ("for x in y:\n    # first\n    target()\n", "for x in y:\n    new()\n    # first\n    target()\n"),
        ("if x:\r\n\ttarget()\r\n", "if x:\r\n\tnew()\r\n\ttarget()\r\n"),
        ("for x in y: target()\n", "for x in y: new(); target()\n"),
        ("a(); target()\n", "a(); new(); target()\n"),
        ("target(); a()\n", "new()\ntarget(); a()\n"),
        ("b = [\n    target()\n]\n", "new()\nb = [\n    target()\n]\n"),
        ("f = lambda: target()\n", None),
        ("while target():\n    pass\n", None),
    ],
)
def test_insert_before(before: str, after: str | None) -> None:
    assert changed(before, lambda tree: [edits.InsertBefore(call(tree), "new()")]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\ntarget()\nb()\n", "a()\ntarget()\nnew()\nb()\n"),
        ("target()  # why\nb()\n", "target()  # why\nnew()\nb()\n"),
        ("target()", "target()\nnew()"),
        ("if x:\n    target(\n        1\n    )\nb()\n", "if x:\n    target(\n        1\n    )\n    new()\nb()\n"),
        ("if x:\r\n\ttarget()\r\nb()\r\n", "if x:\r\n\ttarget()\r\n\tnew()\r\nb()\r\n"),
        ("for x in y: target()\n", "for x in y: target(); new()\n"),
        ("target(); a()\n", "target(); new(); a()\n"),
    ],
)
def test_insert_after(before: str, after: str) -> None:
    assert changed(before, lambda tree: [edits.InsertAfter(call(tree), "new()")]) == after


def enclose(tree: Tree) -> list[edits.NodeEdit]:
    return [edits.Enclose(call(tree), call(tree, "last"), "with b:")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("target()\nlast()\nc()\n", "with b:\n    target()\n    last()\nc()\n"),
        ("if x:\n\ttarget()\n\tlast()\n", "if x:\n\twith b:\n\t\ttarget()\n\t\tlast()\n"),
        ("# about it\ntarget()\n\n# more\nlast()\n", "# about it\nwith b:\n    target()\n\n    # more\n    last()\n"),
        ("target(\n    1)\nlast()\n", "with b:\n    target(\n        1)\n    last()\n"),
        ('target("""\n a\n""", 1,\n 2)\nlast()\n', 'with b:\n    target("""\n a\n""", 1,\n     2)\n    last()\n'),
        ('target(f"""\n{a}\n""")\nlast()\n', 'with b:\n    target(f"""\n{a}\n""")\n    last()\n'),
        ("target(); last()\n", "with b:\n    target(); last()\n"),
        ("if x: target(); last()\n", None),
        ("target()\nif x:\n    pass\nlast()\n", None),
    ],
)
def test_enclose(before: str, after: str | None) -> None:
    assert changed(before, enclose) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for x in y:\n    a()\nb()\n", "with c:\n    for x in y:\n        a()\nb()\n"),
        ("if z:\n  for x in y: a()\nb()\n", "if z:\n  with c:\n    for x in y: a()\nb()\n"),
        (
            '# why\nfor x in y:\n    a("""\nb""",\n    1)\n',
            '# why\nwith c:\n    for x in y:\n        a("""\nb""",\n        1)\n',
        ),
    ],
)
def test_enclose_loop(before: str, after: str) -> None:
    def enclose_loop(tree: Tree) -> list[edits.NodeEdit]:
        loop = next(tree.of_type(cst.For))
        return [edits.Enclose(loop, loop, "with c:")]

    assert changed(before, enclose_loop) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with a:\n    b()\n    c()\nd()\n", "b()\nc()\nd()\n"),
        ("with a: b(); c()\nd()\n", "b(); c()\nd()\n"),
        ("if x:\n\twith a:  # one\n\t\tb()\n\n\t\tc()\n", "if x:\n\t# one\n\tb()\n\n\tc()\n"),
        ("with a(\n    1,  # one\n):\n    b()\n", "# one\nb()\n"),
        ('with a:\n    b("""\n    c\n    """)\n', 'b("""\n    c\n    """)\n'),
        ("with a:\n    b(\n  1)\n", "b(\n1)\n"),
        ("with a:\n    b()\n    # the end\n# outside\nc()\n", "b()\n# the end\n# outside\nc()\n"),
        ("with a:\n    for x in y:\n        b()\n", "for x in y:\n    b()\n"),
        ("with a:\n    # first\n    b()\n", "# first\nb()\n"),
    ],
)
def test_unwrap(before: str, after: str) -> None:
    assert changed(before, lambda tree: [edits.Unwrap(next(tree.of_type(cst.With)))]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = a\n", "x = a.end()\n"),
        ("x = a.b[0](1)\n", "x = a.b[0](1).end()\n"),
        ("x = a + b\n", "x = (a + b).end()\n"),
        ("x = (a + b)\n", "x = (a + b).end()\n"),
        ("x = (\n    a\n)\n", None),
        ("x = -a\n", "x = (-a).end()\n"),
        ("x = a if b else c\n", "x = (a if b else c).end()\n"),
    ],
)
def test_append(before: str, after: str | None) -> None:
    assert changed(before, lambda tree: [edits.Append(next(tree.of_type(cst.Assign)).value, ".end()")]) == after


def test_replace_and_prepend() -> None:
    def make(tree: Tree) -> list[edits.NodeEdit]:
        return [edits.Prepend(call(tree), "y = "), edits.Replace(call(tree).func, "other")]

    assert changed("target(1)  # why\n", make) == "y = other(1)  # why\n"
    assert changed("(target(1))\n", make) is None


def test_a_replacement_loses_no_comment() -> None:
    assert changed("target(\n    1,  # one\n)\n", lambda tree: [edits.Replace(call(tree), "new()")]) is None


def test_a_change_is_unsafe_unless_it_is_said_to_be_safe() -> None:
    assert edits.Change("x", []).safety is Safety.UNSAFE
