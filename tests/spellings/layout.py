"""Layouts of a program: the same tokens with other blanks, line ends, brackets, strings and letters."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Callable, Iterator
from random import Random

BRACKETS = "brackets_around"
"""A call of this name is written as brackets around its argument."""
_COMPOUND = frozenset("if for while with try def class match async else elif except finally case @".split())
_WORDS = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
_SKIPPED = (tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENDMARKER)

Line = tuple[int, list[str]]
"""How deep a logical line is indented, and its tokens."""


def laid_out(text: str, random: Random) -> bytes:
    """A program in a layout that is drawn at random."""
    lines = list(_lines(text))
    for change, chance in _CHANGES:
        if random.random() < chance:
            lines = change(lines, random)
    indent = random.choice(["    ", "    ", "  ", "\t"])
    newline = random.choice(["\n", "\n", "\r\n", "\r"])
    written = "".join(f"{indent * depth}{_joined(tokens)}\n" for depth, tokens in lines)
    return written.replace("\n", newline).encode()


def _lines(text: str) -> Iterator[Line]:
    depth, tokens = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        depth += {tokenize.INDENT: 1, tokenize.DEDENT: -1}.get(token.type, 0)
        if token.type == tokenize.NEWLINE:
            yield depth, _without_marks(tokens)
            tokens = []
        elif token.type not in _SKIPPED:
            tokens.append(token.string)


def _without_marks(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token != BRACKETS]


def _joined(tokens: list[str]) -> str:
    """Tokens as one line, with a blank where two words would become one."""
    text = ""
    for token in tokens:
        if text and ((_is_word(text[-1]) and _is_word(token[0])) or text[-1] in ",:=" or token in _SPACED):
            text += " "
        text += token
        text += " " if token in _SPACED else ""
    return text


_SPACED = frozenset("= + - * / @ += -= *= /= @= := == > < ->".split()) - {"*", "@", "-"}


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter in "_\"'" or ord(letter) > 127


# -- changes ------------------------------------------------------------------------------------------


def _blanks(lines: list[Line], random: Random) -> list[Line]:
    """Blanks before brackets and around dots."""

    def blank(before: str, token: str) -> str:
        apart = token in ("(", "[", ".", "=", "+=") or before == "."
        return f" {token}" if apart and before and not before[-1].isdigit() and random.random() < 0.3 else token

    return [(depth, _with_pairs(tokens, blank)) for depth, tokens in lines]


def _with_pairs(tokens: list[str], change: Callable[[str, str], str]) -> list[str]:
    return [change(before, token) for before, token in zip(["", *tokens], tokens, strict=False)]


def _continuations(lines: list[Line], random: Random) -> list[Line]:
    """Backslashes at the ends of lines, between any two tokens."""

    def broken(before: str, token: str) -> str:
        return f" \\\n  {token}" if before and random.random() < 0.1 else token

    return [(depth, _with_pairs(tokens, broken)) for depth, tokens in lines]


def _lines_in_brackets(lines: list[Line], random: Random) -> list[Line]:
    """New lines inside of brackets, behind comments too."""

    def broken(tokens: list[str]) -> list[str]:
        found, depth = [], 0
        for token in tokens:
            if depth > 0 and random.random() < 0.15:
                token = random.choice(["\n", " # (\n", "\n\n    "]) + token
            stripped = token.strip()
            depth += (stripped[-1:] in "([{") - (stripped[-1:] in ")]}") if stripped[-1:] in tuple("([{)]}") else 0
            found.append(token)
        return found

    return [(depth, broken(tokens)) for depth, tokens in lines]


def _semicolons(lines: list[Line], random: Random) -> list[Line]:
    """Statements that share a line."""
    found: list[Line] = []
    for depth, tokens in lines:
        before = found[-1] if found else None
        if before and before[0] == depth and not _is_compound(tokens) and not _is_compound(before[1]):
            if random.random() < 0.3:
                found[-1] = (depth, [*before[1], ";", *tokens])
                continue
        found.append((depth, tokens))
    return found


def _one_liners(lines: list[Line], random: Random) -> list[Line]:
    """The single statement of a block behind its colon."""
    found: list[Line] = []
    for index, (depth, tokens) in enumerate(lines):
        alone = index + 1 == len(lines) or lines[index + 1][0] < depth
        begins = found and found[-1][0] == depth - 1 and found[-1][1][-1] == ":"
        if alone and begins and not _is_compound(tokens) and found[-1][1][0] != "match" and random.random() < 0.5:
            found[-1] = (depth - 1, [*found[-1][1], *tokens])
        else:
            found.append((depth, tokens))
    return found


def _is_compound(tokens: list[str]) -> bool:
    return tokens[0] in _COMPOUND or tokens[-1] == ":" or (tokens[0] == "return" and tokens[-1] == ";")


def _strings(lines: list[Line], random: Random) -> list[Line]:
    """Strings in parts, and with escapes."""

    def changed(token: str) -> str:
        if len(token) < 4 or token[0] not in "'\"" or "\\" in token or random.random() < 0.5:
            return token
        quote, inner = token[0], token[1:-1]
        parts = f"{quote}{inner[:2]}{quote} {quote}{inner[2:]}{quote}"
        return random.choice(
            [parts, f"{quote}\\x{ord(inner[0]):02x}{inner[1:]}{quote}", f"{quote * 3}{inner}{quote * 3}"]
        )

    return [(depth, [changed(token) for token in tokens]) for depth, tokens in lines]


def _letters(lines: list[Line], random: Random) -> list[Line]:
    """Letters that Python reads as others: names are normalized by NFKC."""

    def changed(token: str) -> str:
        if not token.isidentifier() or keyword.iskeyword(token) or keyword.issoftkeyword(token):
            return token
        if token.startswith("__") or random.random() < 0.8:
            return token
        place = random.randrange(len(token))
        letter = token[place]
        if not ("a" <= letter <= "z"):
            return token
        wide = random.choice([chr(ord(letter) - ord("a") + 0xFF41), chr(ord(letter) - ord("a") + 0x1D41A)])
        return token[:place] + wide + token[place + 1 :]

    return [(depth, [changed(token) for token in tokens]) for depth, tokens in lines]


_CHANGES: tuple[tuple[Callable[[list[Line], Random], list[Line]], float], ...] = (
    (_strings, 0.2),
    (_letters, 0.1),
    (_semicolons, 0.3),
    (_one_liners, 0.3),
    (_blanks, 0.3),
    (_lines_in_brackets, 0.2),
    (_continuations, 0.2),
)
