"""Nothing that a client sends or a rule does takes the server down."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from lsprotocol import types

from tests.server.editor import SERVER, Editor, at

NOTHING = types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(2, "file:///nowhere.py"), [])


def assert_alive(editor: Editor) -> None:
    assert editor.found(editor.open("alive.py", "bad()\n")) == ["XX001 0:0-0:5"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no rule looks into this\n", "TL001"),
        ("bad(\0)", "TL002"),
        ("bad('\ud800')", "TL002"),
        ("bad" + "(" * 5000 + ")" * 5000, ""),
        ("bad()\n" + "#" * 10_000_001, "TL002"),
        ("\ufeffbad()\n", "XX001"),
        ("", ""),
    ],
    ids=["syntax", "NUL", "surrogate", "deep", "huge", "BOM", "empty"],
)
def test_garbage(editor: Editor, text: str, code: str) -> None:
    uri = editor.open("garbage.py", text)
    found = editor.found(uri)
    assert not code or [item.split()[0] for item in found] == [code]
    editor.actions(uri, at(0, 0))
    editor.hover(uri, 0, 0)
    assert_alive(editor)
    assert editor.logs == []


def test_a_rule_that_raises(editor: Editor) -> None:
    uri = editor.open("train.py", "bad()\ncrash()\n")
    crash, bad = editor.diagnostics(uri)
    assert (bad.code, crash.code) == ("XX001", "TL003")
    assert crash.message.startswith("rule crash crashed: ValueError: no reason")
    assert "crashed" in editor.hover(uri, 0, 0).lower()


def test_what_was_never_opened(editor: Editor) -> None:
    editor.notify(types.TEXT_DOCUMENT_DID_CHANGE, NOTHING)
    editor.save("file:///nowhere.py")
    editor.close("file:///nowhere.py")
    assert editor.actions("file:///nowhere.py", at(0, 0)) == []
    assert editor.hover("file:///nowhere.py", 0, 0) == ""
    editor.until(lambda: any("KeyError" in log for log in editor.logs))
    assert_alive(editor)


def test_a_method_that_nobody_knows(editor: Editor) -> None:
    editor.notify("torchlint/nonsense", {"a": 1})
    assert_alive(editor)


def test_a_message_that_makes_no_sense(editor: Editor) -> None:
    editor.notify("textDocument/didOpen", None)
    assert_alive(editor)


def converse(command: tuple[str, ...], text: bytes, environment: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    done = subprocess.run(command, input=text, env=environment, capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_it_goes_with_its_client() -> None:
    assert converse(SERVER, b"Content-Length: 2\r\n\r\n{}")[0] == 0
    assert converse((*SERVER, "--stdio"), b"")[0] == 0


def test_without_pygls(tmp_path: Path) -> None:
    """The message says what to install. (A None in sys.modules is what a missing module is like.)"""
    code = (
        "import sys\nfrom importlib.machinery import PathFinder\nfind = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, *rest: None if name == 'pygls' else find(name, *rest)\n"
        "sys.argv = ['torchlint', 'server']\nfrom torchlint.cli import main\nmain()"
    )
    returncode, output = converse((sys.executable, "-c", code), b"", {**os.environ, "NO_COLOR": "1"})
    assert returncode == 2
    assert b'pip install "torchlint[lsp]"' in output


@pytest.mark.parametrize("arguments", [("--tcp", "nowhere"), ("--tcp", "host:99999"), ("--stdio", "--tcp", "a:1")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert converse((*SERVER, *arguments), b"")[0] == 2


def test_over_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with subprocess.Popen((*SERVER, "--tcp", f"127.0.0.1:{port}"), cwd=tmp_path, stderr=subprocess.PIPE) as process:
        with connected(port) as client, client.makefile("rwb") as stream:
            body = (
                b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": 1}}'
            )
            stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            stream.flush()
            assert stream.readline().startswith(b"Content-Length: ")
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()


def connected(port: int) -> socket.socket:
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 30)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
