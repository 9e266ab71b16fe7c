"""Measures an edit in the language server: `python tests/benchmarks/edits.py` prints its CPU time, median and worst.

The server runs in this process, without pipes. In training files of 1,000 and 5,000 lines (or of `--lines N`), digits
are typed into one function. An edit ends when its diagnostics are published and the thread that lints is idle again.
The quick fix of a finding is asked for once a version, after its diagnostics.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import training
from torchlint.server.features import code_action, initialized, server

EDITS = 20
WARM_UP = 3
GOALS = {1000: 45.0, 5000: 120.0}
"""CPU milliseconds of an edit, by lines of the file."""
LINE = "        seen += images.size(0)"
SETTINGS = {"debounce": 0}
URI = "untitled:train.py"
_ACTIONS = types.CodeActionClientCapabilities(
    data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
)
CAPABILITIES = types.ClientCapabilities(text_document=types.TextDocumentClientCapabilities(code_action=_ACTIONS))
"""As Visual Studio Code and Neovim: they ask for the edits of an action once the user chooses it."""


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

    async def open(self, text: str) -> None:
        self.send(types.InitializeRequest(1, types.InitializeParams(CAPABILITIES, initialization_options=SETTINGS)))
        await initialized(self.server, types.InitializedParams())
        item = types.TextDocumentItem(URI, "python", 1, text)
        self.send(types.DidOpenTextDocumentNotification(types.DidOpenTextDocumentParams(item)))
        await self.until(1)

    async def edit(self, version: int, place: types.Position, typed: str) -> None:
        change = types.TextDocumentContentChangePartial(types.Range(place, place), typed)
        document = types.VersionedTextDocumentIdentifier(version, URI)
        params = types.DidChangeTextDocumentParams(document, [change])
        self.send(types.DidChangeTextDocumentNotification(params))
        await self.until(version)

    async def ask_for_fixes(self, place: types.Range) -> None:
        context = types.CodeActionContext([], [types.CodeActionKind.QuickFix])
        await code_action(self.server, types.CodeActionParams(types.TextDocumentIdentifier(URI), place, context))


async def costs(text: str) -> tuple[list[float], list[float]]:
    """CPU milliseconds of each edit, and of each request for the quick fixes in the last function."""
    client, lines = Client(), text.split("\n")
    await client.open(text)
    numbers = [number for number, line in enumerate(lines) if line == LINE]
    number, column = numbers[len(numbers) // 2], len(LINE)
    last = types.Range(types.Position(len(lines) - 20, 0), types.Position(len(lines), 0))
    edits, fixes = [], []
    for version, typed in enumerate([" + 1", *"0" * (EDITS + WARM_UP - 1)], 2):
        start = time.process_time()
        await client.edit(version, types.Position(number, column), typed)
        edited = time.process_time()
        await client.ask_for_fixes(last)
        edits.append((edited - start) * 1000)
        fixes.append((time.process_time() - edited) * 1000)
        column += len(typed)
    client.server.linter.close()
    return edits[WARM_UP:], fixes[WARM_UP:]


def _shown(name: str, milliseconds: Sequence[float]) -> str:
    return f"{name:<14} median {statistics.median(milliseconds):7.1f} ms   worst {max(milliseconds):7.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, action="append")
    for wanted in parser.parse_args().lines or GOALS:
        text = training.file(wanted) + training.BUG
        edits, fixes = asyncio.run(costs(text))
        goal = f"   goal {GOALS[wanted]:.0f} ms" if wanted in GOALS else ""
        print(f"{text.count(chr(10)):,} lines, {len(edits)} edits in one function")
        print(_shown("an edit", edits) + goal)
        print(_shown("quick fixes", fixes))


if __name__ == "__main__":
    main()
