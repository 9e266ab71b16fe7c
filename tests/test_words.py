"""The words of a file: the same answers as a search of its text, whatever was searched before."""

from __future__ import annotations

from pathlib import Path

from torchlint.engine.gate import by_words
from torchlint.engine.registry import select
from torchlint.files import words
from torchlint.files.words import Vocabulary, Words, note_names, words_of

FILES = sorted((Path(__file__).parents[1] / "fixtures").glob("*/bad.py"))[::20]
GROUPS = sorted({tuple(group) for rule in select().rules for group in rule.triggers})


def test_each_group_is_found_where_its_words_are() -> None:
    for file in FILES:
        data = file.read_bytes()
        found = [group for group in GROUPS if words_of(data).hold(group)]
        assert found == [group for group in GROUPS if any(word in data for word in group)]


def test_a_word_that_is_new_is_found_in_a_file_searched_before() -> None:
    known = Words(b"first_example = other_example(1)")
    assert known.hold([b"first_ex"]) and not known.hold([b"third_ex"])
    assert known.hold([b"er_exam"])
    assert known.hold([b"third_ex", b"example(1)"])


def test_a_vocabulary_forgets_what_it_knew_of_names_before_a_new_word() -> None:
    vocabulary = Vocabulary()
    one = vocabulary.bit_of(b"step")
    assert vocabulary.words_in([b"optimizer_step"]) == one
    other = vocabulary.bit_of(b"optim")
    assert vocabulary.words_in([b"optimizer_step"]) == one | other


def test_the_names_of_another_spelling_are_kept_only_for_its_text() -> None:
    note_names(b"a . b", frozenset([b"a", b"b"]))
    assert words_of(b"a . b").names == {b"a", b"b"}
    assert words_of(b"a . c").names == {b"a", b"c"}


def test_few_files_are_kept() -> None:
    for number in range(200):
        words_of(b"name_%d" % number)
    assert len(words._recent) <= words._MOST_RECENT


def test_rules_are_the_same_for_a_file_in_any_order_of_files() -> None:
    rules = select().rules
    codes = [file.read_bytes() for file in FILES]
    before = [by_words(rules, code) for code in codes]
    assert [by_words(rules, code) for code in reversed(codes)] == before[::-1]
