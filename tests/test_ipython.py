"""IPython's additions to Python are removed from cells, line by line and column by column."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.files.ipython import masked

PLAIN = {
    "%matplotlib inline\n": "pass\n",
    "%load_ext tensorboard\n%tensorboard --logdir runs\n": "pass\npass\n",
    "!pip install torch\n": "pass\n",
    "!!ls\n": "pass\n",
    "if x:\n    !pip install torch\n": "if x:\n    pass\n",
    "%time loss.backward()\n": "pass; loss.backward()\n",
    "%timeit -n 10 f(x)\n": "pass\n",
    "%timeit f(x)\n": "pass;   f(x)\n",
    "%time for x in y: f(x)\n": "pass\n",
    "files = !ls *.pt\n": "files = None\n",
    "out.x['a'] = %sql select 1\n": "out.x['a'] = None\n",
    "a, b = !ls\n": "a, b = None\n",
    "?torch.save\n": "pass\n",
    "torch.save?\n": "pass\n",
    "torch.save??\n": "pass\n",
    "x = 1\nmodel?": "x = 1\npass",
    "!echo a \\\n  b\nx\n": "pass\n\nx\n",
    "%%time\nx = 1\n": "\nx = 1\n",
    "%%timeit -n 1\nx = 1\n!ls\n": "\nx = 1\npass\n",
    "\n%%capture out\n%%time\nx\n": "\n\n\nx\n",
    "%%torchlint --run\nx\n": "\nx\n",
    "%%bash\nrm -rf x\n": "\n\n",
    "# fetch\n\n# all\n%%shell\nif [ ! -f a ]\n": "\n\n\n\n\n",
    "# time it\n%%time\nx\n": "# time it\n\nx\n",
    "%%html\n<b>\n": "\n\n",
    "%%writefile a.py\nbad()\n": "\n\n",
    "%time x\r\ny\r\n": "pass; x\r\ny\r\n",
    "%%bash\r\nls\r\n": "\r\n\r\n",
    "x = [1,\n!ls\n]\n%ls\n": "x = [1,\n!ls\n]\npass\n",
}


AUTOMAGIC = {
    "cd 'Colab Notebooks'": "pass",
    "ls saved_models/\n": "pass\n",
    "\n \npip install torch\r\n": "\n \npass\r\n",
    "  mkdir -p runs/a": "  pass",
    "cat <in.txt": "pass",
    "rm *.pt": "pass",
    "cd -": "pass",
    "run train.py --lr 0.1  # quick": "pass",
    "load_ext tensorboard": "pass",
    "cd x?": "pass",
    "time loss.backward()": "pass;loss.backward()",
    "timeit loss.backward()": "pass;  loss.backward()",
    "timeit -n 3 f(x)": "pass",
    "time for x in y: f(x)": "pass",
}
"""Cells of one line, to which IPython adds a `%`."""


@pytest.mark.parametrize("cell", AUTOMAGIC)
def test_automagic(cell: str) -> None:
    assert masked(cell) == AUTOMAGIC[cell]


@pytest.mark.parametrize("cell", PLAIN)
def test_masked(cell: str) -> None:
    assert masked(cell) == PLAIN[cell]


@pytest.mark.parametrize(
    "cell",
    [
        "x = a % b\n",
        "x = (a\n%b)\n",
        "x = a \\\n% b\n",
        "s = '''\n%time\n!ls\n'''\n",
        's = """\n%%bash\nx?\n"""\n',
        "s = 'why?'\n",
        "# really?\n",
        "x != y\n",
        "f(a=b)\nx = y  # %time\n",
        "x = {\n  'a': 1,\n  # what?\n}\n",
        "print(f'{a!r}')\n",
        "",
        "\n",
        "x y",
        "cd x\nls",
        "# go\ncd x",
        "cd x\n\n",
        "ls = 3",
        "ls -la",
        "cd == x",
        "cd, x = y z",
        "cd.x y",
        "cd../x",
        "time(x)",
        "env",
        "cd",
        "runs x",
    ],
)
def test_python_is_left_alone(cell: str) -> None:
    assert masked(cell) == cell


@given(st.lists(st.sampled_from([*PLAIN, "x = 1\n", "for x in y:\n", "    z = '''", "(", ")", "\\\n", "%", "!", "?"])))
def test_lines_stay(parts: list[str]) -> None:
    cell = "".join(parts)
    assert masked(cell).count("\n") == cell.count("\n")


@given(
    st.lists(st.sampled_from(["x = 1\n", "%time x\n", "!ls\n", "y = !ls\n", "f(1,\n  2)\n", "x?\n", "s = '''%\n'''\n"]))
)
def test_what_is_left_is_python(parts: list[str]) -> None:
    ast.parse(masked("".join(parts)))
