"""Measures an edit in the language server: `python tests/benchmarks/edits.py` prints its CPU time as a Markdown table.

The server runs in this process, without pipes. In the middle assignment of each file, digits are typed: of training
files that are made, of 1,000 and 5,000 lines, and of real ones, which stand in their packages. An edit ends when its
diagnostics are published and the thread that lints is idle again. The quick fixes of the last lines are asked for once
a version, after its diagnostics. Each edit is compared with Python's own parser on the same text, in the same run.
`--write` puts the table into docs/guides/speed.md.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import corpus, costs, training
from torchlint.server.features import code_action, initialized, server

EDITS = 20
WARM_UP = 3
PARSES = 9
LINES = (1_000, 5_000)
"""Lines of the generated files. The goals are 45 and 120 ms."""
REAL = (
    "stable_baselines3/ppo/ppo.py",
    "trl/trainer/reward_trainer.py",
    "ultralytics/engine/trainer.py",
    "trl/trainer/grpo_trainer.py",
    "accelerate/accelerator.py",
    "transformers/trainer.py",
)
_PACKAGES = {name.partition("/")[0].replace("_", "-") for name in REAL}
PINS = tuple(pin for pin in corpus.PINS if pin.partition("==")[0] in _PACKAGES)
SETTINGS = {"debounce": 0}
_ACTIONS = types.CodeActionClientCapabilities(
    data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
)
CAPABILITIES = types.ClientCapabilities(text_document=types.TextDocumentClientCapabilities(code_action=_ACTIONS))
"""As Visual Studio Code and Neovim: they ask for the edits of an action once the user chooses it."""
HEADS = ["an edit in", "lines", "CPU ms", "worst", "CPU : parser", "quick fixes, CPU ms"]


@dataclass(frozen=True)
class Edits:
    """CPU milliseconds of each edit of a file, of each request for quick fixes, and of Python's parser on it."""

    edits: list[float]
    fixes: list[float]
    parser: float


class Client:
    """An editor in the process of its server; it knows the version of the latest diagnostics."""

    def __init__(self) -> None:
        self.server = server()
        self.server.protocol.set_writer(self, include_headers=False)
        self._version = 0
        self._published = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Take what the server sends."""
        message = json.loads(data)
        if message.get("method") == types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS:
            self._version = message["params"]["version"]
            self._published.set()

    def close(self) -> None:
        """A writer can be closed."""

    def send(self, message: Any) -> None:
        self.server.protocol.handle_message(message)

    async def until(self, version: int) -> None:
        """Wait until this version's diagnostics are published, and the thread that lints is idle."""
        while self._version < version:
            self._published.clear()
            await self._published.wait()
        await self.server.linter.run(lambda: None)

    async def open(self, uri: str, text: str) -> None:
        self._uri = uri
        self.send(types.InitializeRequest(1, types.InitializeParams(CAPABILITIES, initialization_options=SETTINGS)))
        await initialized(self.server, types.InitializedParams())
        item = types.TextDocumentItem(uri, "python", 1, text)
        self.send(types.DidOpenTextDocumentNotification(types.DidOpenTextDocumentParams(item)))
        await self.until(1)

    async def edit(self, version: int, place: types.Position, typed: str) -> None:
        change = types.TextDocumentContentChangePartial(types.Range(place, place), typed)
        document = types.VersionedTextDocumentIdentifier(version, self._uri)
        params = types.DidChangeTextDocumentParams(document, [change])
        self.send(types.DidChangeTextDocumentNotification(params))
        await self.until(version)

    async def ask_for_fixes(self, place: types.Range) -> None:
        context = types.CodeActionContext([], [types.CodeActionKind.QuickFix])
        await code_action(self.server, types.CodeActionParams(types.TextDocumentIdentifier(self._uri), place, context))


async def measured(uri: str, text: str, edits: int = EDITS) -> Edits:
    """Type digits into the middle assignment of a file, and ask for the quick fixes of its last lines."""
    client, place, end = Client(), middle(text), text.count("\n")
    await client.open(uri, text)
    last = types.Range(types.Position(max(0, end - 20), 0), types.Position(end, 0))
    found = Edits([], [], parser(text))
    for version, typed in enumerate([" + 1", *"0" * (edits + WARM_UP - 1)], 2):
        start = time.process_time()
        await client.edit(version, place, typed)
        edited = time.process_time()
        await client.ask_for_fixes(last)
        found.edits.append((edited - start) * 1000)
        found.fixes.append((time.process_time() - edited) * 1000)
        place = types.Position(place.line, place.character + len(typed))
    client.server.linter.close()
    return Edits(found.edits[WARM_UP:], found.fixes[WARM_UP:], found.parser)


def middle(text: str) -> types.Position:
    """The end of the middle one of the assignments of one line that stand in functions."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    inside = {node for function in functions for node in ast.walk(function) if isinstance(node, ast.Assign)}
    lines = sorted(node.lineno for node in inside if node.lineno == node.end_lineno)
    number = lines[len(lines) // 2]
    return types.Position(number - 1, len(text.split("\n")[number - 1].rstrip()))


def parser(text: str) -> float:
    """CPU milliseconds of Python's parser."""
    spent = []
    for _ in range(PARSES):
        start = time.process_time()
        ast.parse(text)
        spent.append((time.process_time() - start) * 1000)
    return statistics.median(spent)


def files(tree: Path | None) -> Iterator[tuple[str, str, str]]:
    """Names, URIs and texts: of files that are made, and of the real ones that a tree of packages holds."""
    for lines in LINES:
        yield "a generated file", f"untitled:train_{lines}.py", training.file(lines) + training.BUG
    for name in REAL if tree is not None else ():
        for path in tree.glob(f"*/{name}") if tree is not None else ():
            yield f"`{name}`", path.as_uri(), path.read_text("utf-8")


def table(tree: Path | None, edits: int = EDITS) -> str:
    """A row for each file, of the medians."""
    rows = []
    for name, uri, text in files(tree):
        cost = asyncio.run(measured(uri, text, edits))
        median = statistics.median(cost.edits)
        spent = [f"{value:,.0f}" for value in (median, max(cost.edits))]
        fixes = f"{statistics.median(cost.fixes):,.0f}"
        rows.append([name, f"{text.count(chr(10)):,}", *spent, costs.ratio(median, cost.parser), fixes])
    return costs.table(HEADS, rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cache", type=Path, default=corpus.CACHE, help="where to fetch the packages to")
    options.add_argument("--made", action="store_true", help="measure the files that are made only")
    options.add_argument("--edits", type=int, default=EDITS, help="how many edits of each file")
    options.add_argument("--write", action="store_true", help="write the table into docs/guides/speed.md")
    chosen = options.parse_args()
    try:
        tree = (
            None if chosen.made else corpus.fetched(chosen.cache, PINS, say=lambda text: print(text, file=sys.stderr))
        )
    except corpus.Unavailable as error:
        sys.exit(str(error))
    text = table(tree, chosen.edits)
    print(text, end="")
    if chosen.write:
        costs.write(costs.PAGE, "edits", text)


if __name__ == "__main__":
    main()
