"""What an edit costs the language server: `python tests/benchmarks/edits.py` prints CPU milliseconds, median and worst.

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
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import training
from torchlint.server.features import code_action, initialized, server

EDITS = 20
WARM_UP = 3
GOALS = {1000: 45.0, 5000: 120.0}
"""CPU milliseconds of an edit, by lines of the file."""
LINE = "        seen += images.size(0)"
URI = "untitled:train.py"
_ACTIONS = types.CodeActionClientCapabilities(
    data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
)
CAPABILITIES = types.ClientCapabilities(text_document=types.TextDocumentClientCapabilities(code_action=_ACTIONS))
"""Those of Visual Studio Code and Neovim, which ask for the edits of an action once it is chosen."""


class Client:
    """What the server writes to: it keeps the version of the latest diagnostics."""

    def __init__(self) -> None:
        self.version = 0
        self.published = asyncio.Event()

    def write(self, data: bytes) -> None:
        message = json.loads(data)
        if message.get("method") == types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS:
            self.version = message["params"]["version"]
            self.published.set()

    def close(self) -> None:
        """A writer can be closed."""

    async def until(self, version: int) -> None:
        while self.version < version:
            self.published.clear()
            await self.published.wait()


async def costs(text: str) -> tuple[list[float], list[float]]:
    """CPU milliseconds of each edit, and of each request for the quick fixes of the last function."""
    client, lints = Client(), server()
    lints.protocol.set_writer(client, include_headers=False)
    lints.protocol.handle_message(
        types.InitializeRequest(1, types.InitializeParams(CAPABILITIES, initialization_options={"debounce": 0}))
    )
    await initialized(lints, types.InitializedParams())
    item = types.TextDocumentItem(URI, "python", 1, text)
    lints.protocol.handle_message(types.DidOpenTextDocumentNotification(types.DidOpenTextDocumentParams(item)))
    await client.until(1)
    lines = text.split("\n")
    own = [number for number, line in enumerate(lines) if line == LINE]
    end = types.Position(own[len(own) // 2], len(LINE))
    last = types.Range(types.Position(len(lines) - 20, 0), types.Position(len(lines), 0))
    edits, fixes = [], []
    for version, typed in enumerate(_typed(), 2):
        change = types.TextDocumentContentChangePartial(types.Range(end, end), typed)
        end = types.Position(end.line, end.character + len(typed))
        start = time.process_time()
        document = types.VersionedTextDocumentIdentifier(version, URI)
        params = types.DidChangeTextDocumentParams(document, [change])
        lints.protocol.handle_message(types.DidChangeTextDocumentNotification(params))
        await client.until(version)
        await lints.linter.run(lambda: None)
        published = time.process_time()
        context = types.CodeActionContext([], [types.CodeActionKind.QuickFix])
        await code_action(lints, types.CodeActionParams(types.TextDocumentIdentifier(URI), last, context))
        edits.append((published - start) * 1000)
        fixes.append((time.process_time() - published) * 1000)
    lints.linter.close()
    return edits[WARM_UP:], fixes[WARM_UP:]


def _typed() -> Iterator[str]:
    yield " + 1"
    yield from "0" * (EDITS + WARM_UP - 1)


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
