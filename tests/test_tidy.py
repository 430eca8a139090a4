"""The rules of the house, each over the whole project, and each seen to fail on a bad sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tidy import cycles, documents, english, faults, rust, words
from tidy.files import ROOT, Finding, Source, project_files, report

UNFINISHED = "TO" + "DO"
VAGUE = "help" + "ers"

Rule = Callable[[Source], list[Finding]]


@cache
def files() -> tuple[Source, ...]:
    return tuple(project_files())


def rust_files() -> list[Source]:
    return [source for source in files() if source.suffix == ".rs"]


def document(path: str) -> Source:
    return next(source for source in files() if source.path == path)


def existing_paths() -> frozenset[str]:
    paths = {source.path for source in files()}
    paths |= {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)}
    return frozenset(paths)


def check(findings: list[Finding]) -> None:
    assert not findings, report(findings)


EACH_FILE = [
    words.long_file,
    words.long_python_functions,
    words.banned_names,
    words.leftover_marks,
    words.machine_paths,
    words.unknown_hosts,
    documents.untitled,
    english.plain_docstrings,
    english.plain_english,
]
EACH_RUST_FILE = [rust.long_functions, rust.misplaced_unsafe]


@pytest.mark.parametrize("rule", EACH_FILE, ids=lambda rule: rule.__name__)
def test_every_file_keeps(rule: Rule) -> None:
    check([finding for source in files() for finding in rule(source)])


@pytest.mark.parametrize("rule", EACH_RUST_FILE, ids=lambda rule: rule.__name__)
def test_every_rust_file_keeps(rule: Rule) -> None:
    check([finding for source in rust_files() for finding in rule(source)])


def rust_files_of_the_product() -> list[Source]:
    for_tests = rust.test_modules(rust_files())
    return [source for source in rust_files() if source.path not in for_tests and not source.is_test]


def test_the_core_is_pure() -> None:
    check([finding for source in rust_files_of_the_product() for finding in rust.impure_core(source)])


def test_models_see_every_lock_of_the_engine() -> None:
    check([finding for source in rust_files_of_the_product() for finding in rust.unmodelled_locks(source)])


def test_imports_in_the_core_point_downwards() -> None:
    check(rust.import_arrows(rust_files_of_the_product()))


def test_no_more_files_import_each_other_than_did() -> None:
    check(cycles.import_cycles(rust_files_of_the_product(), cycles.FILES_IN_CYCLES))


def test_every_row_of_the_glossary_exists() -> None:
    check(documents.glossary_files(document("docs/glossary.md"), existing_paths()))


def test_a_stage_has_one_stem_on_every_side() -> None:
    check(documents.glossary_stems(document("docs/glossary.md")))


def test_the_format_document_agrees_with_the_constants() -> None:
    texts = {source.path: source.text for source in rust_files_of_the_product()}
    check(documents.format_against_rust(document("docs/format.md"), texts))


def test_the_format_document_is_checked_at_many_places() -> None:
    text = document("docs/format.md").text
    assert len(documents.STRUCT_MARK.findall(text)) >= 10
    assert documents.CONSTANTS_MARK in text
    assert documents.KINDS_MARK in text


def test_every_planted_fault_has_its_row_and_is_found_on_every_run() -> None:
    texts = {source.path: source.text for source in files()}
    product = {source.path: source.text for source in rust_files_of_the_product()}
    assert len(faults.names_of(texts[faults.ENUM])) >= 70
    check(faults.against_the_table(document("docs/guarantees.md"), texts, product))


def test_the_walk_sees_the_project() -> None:
    paths = {source.path for source in files()}
    assert {"Makefile", "README.md", "rust/core/src/lib.rs", "tests/test_tidy.py"} <= paths
    assert (ROOT / "Makefile").is_file()


# Each checker fails on a bad sample, and passes its good twin.


def rust_sample(text: str, path: str = "rust/core/src/run/mod.rs") -> Source:
    return Source(path, text)


def test_a_long_file_is_found() -> None:
    assert words.long_file(Source("rust/core/src/a.rs", "\n" * 400))
    assert not words.long_file(Source("rust/core/src/a.rs", "\n" * 399))
    assert not words.long_file(Source("rust/core/src/run/tests.rs", "\n" * 400))
    assert words.long_file(Source("rust/core/tests/a.rs", "\n" * 600))
    assert not words.long_file(Source("README.md", "\n" * 900))


def test_a_long_rust_function_is_found() -> None:
    body = '    let x = "}"; // }\n' * 68
    assert rust.long_functions(rust_sample(f"fn long() {{\n{body}}}\n")) == [
        Finding("rust/core/src/run/mod.rs", 1, "function long has 70 lines, the limit is under 70")
    ]
    assert not rust.long_functions(rust_sample(f"fn short() {{\n{body[: -len(body) // 68]}}}\n"))
    assert not rust.long_functions(rust_sample("trait A { fn none(&self); }\n" + "\n" * 80 + "fn a() {}\n"))


def test_a_long_python_function_is_found() -> None:
    assert words.long_python_functions(Source("a.py", "def long():\n" + "    x = 1\n" * 69))
    assert not words.long_python_functions(Source("a.py", "def short():\n" + "    x = 1\n" * 68))


def test_vague_names_are_found() -> None:
    assert words.banned_names(Source(f"python/delaymq/{VAGUE}.py", ""))
    assert words.banned_names(Source("a.py", "class Connection" + "Man" + "ager:\n"))
    assert words.banned_names(Source("a.rs", "mod ut" + "ils;"))
    assert words.banned_names(Source("a.rs", "fn com" + "mon_part() {}"))
    assert not words.banned_names(Source("a.rs", f"// {VAGUE} are fine in words\nfn commonly() {{}}"))


def test_a_clause_as_a_subject_is_found() -> None:
    path = "python/delaymq/a.py"
    assert english.plain_docstrings(Source(path, '"""Who wants all of a store reads its files."""'))
    assert english.plain_docstrings(Source(path, 'A = 1\n"""\nsegment_bytes: Of a file of the log."""'))
    assert english.plain_docstrings(Source(path, 'def a():\n    """Ends it. What is left goes back."""'))
    assert not english.plain_docstrings(Source(path, '"""Pairs of messages; says what is left, and for whom."""'))
    assert not english.plain_docstrings(Source("tests/a.py", '"""What it does."""'))


def test_unfinished_work_is_found() -> None:
    assert words.leftover_marks(Source("a.rs", f"// {UNFINISHED}: later"))
    assert words.leftover_marks(Source("a.rs", "to" + "do!()"))
    assert words.leftover_marks(Source("a.py", "# FIX" + "ME"))
    assert not words.leftover_marks(Source("a.py", "mastodon = 1"))


def test_paths_of_a_machine_and_unknown_hosts_are_found() -> None:
    assert words.machine_paths(Source("a.md", "see /ho" + "me/somebody/delaymq"))
    assert not words.machine_paths(Source("a.md", "see docs/home/page and 5/work"))
    assert words.unknown_hosts(Source("a.md", "http" + "s://registry.example.internal/simple"))
    assert not words.unknown_hosts(Source("a.md", "https://github.com/rust-lang"))


def test_unsafe_outside_its_file_is_found() -> None:
    sample = "fn a() { unsafe { b() } }"
    assert rust.misplaced_unsafe(rust_sample(sample))
    for home in rust.UNSAFE_HOMES:
        assert not rust.misplaced_unsafe(rust_sample(sample, home))
    assert not rust.misplaced_unsafe(rust_sample('// unsafe\n#![deny(unsafe_code)] let x = "unsafe";'))


def test_an_impure_core_is_found() -> None:
    assert rust.impure_core(rust_sample("use std::fs::File;"))
    assert rust.impure_core(rust_sample("use std::{sync::Arc, thread};"))
    assert rust.impure_core(rust_sample("let now = Instant::now();"))
    assert not rust.impure_core(rust_sample("use std::sync::Arc;"))
    assert not rust.impure_core(rust_sample("#[cfg(test)]\nmod tests {\n use std::time::Instant;\n}"))
    assert not rust.impure_core(rust_sample("use std::fs::File;", "rust/engine/src/files/storage.rs"))


def test_a_lock_that_models_do_not_see_is_found() -> None:
    def found(text: str, path: str = "rust/engine/src/a.rs") -> int:
        return len(rust.unmodelled_locks(rust_sample(text, path)))

    assert found("use std::sync::{Arc, Mutex};") == 1
    assert found("use std::sync::atomic::{AtomicBool, Ordering};") == 1
    assert found("fn a() { std::thread::sleep(b); }") == 1
    assert found("use std::time::{Duration, Instant};") == 1
    assert not found("use std::sync::atomic::Ordering;\nuse std::sync::{Arc, OnceLock, TryLockError};")
    assert not found("use std::time::Duration;\nuse crate::sync::{Instant, Mutex, thread};")
    assert not found("use std::sync::Mutex;", "rust/engine/src/query/metrics.rs")
    assert not found("use std::sync::Mutex;", "rust/server/src/a.rs")
    assert not found("#[cfg(test)]\nmod tests {\n use std::sync::Mutex;\n}")


def test_files_for_tests_are_known_by_the_module_above() -> None:
    above = rust_sample(
        '#[cfg(test)]\npub(crate) mod fixture;\n#[cfg(test)]\n#[path = "a_tests.rs"]\nmod tests;\nmod real;'
    )
    found = rust.test_modules([above])
    assert {"rust/core/src/run/fixture.rs", "rust/core/src/run/a_tests.rs"} <= found
    assert "rust/core/src/run/real.rs" not in found


def test_files_below_those_for_tests_are_for_tests_too() -> None:
    above = rust_sample("#[cfg(test)]\nmod fixture;\nmod real;")
    below = [rust_sample("", f"rust/core/src/run/{path}.rs") for path in ("fixture/checking", "real/reading")]
    found = rust.test_modules([above, *below])
    assert "rust/core/src/run/fixture/checking.rs" in found
    assert "rust/core/src/run/real/reading.rs" not in found


def test_an_import_from_above_is_found() -> None:
    upward = rust_sample("use crate::{units::Sequence, store::Owner};")
    assert [finding.what for finding in rust.import_arrows([upward])] == [
        "run may not import store, which lies above it"
    ]
    assert rust.import_arrows([rust_sample("fn a() { crate::wire::b() }")])
    assert not rust.import_arrows([rust_sample("use crate::units::Sequence;\n// crate::store\nuse crate::planted;")])
    assert not rust.import_arrows([rust_sample("#[cfg(test)]\nmod tests {\n use crate::store::Owner;\n}")])


def test_a_circle_within_a_level_is_found() -> None:
    there = rust_sample("use crate::run::Run;", "rust/core/src/message_log/mod.rs")
    back = rust_sample("use crate::message_log::scanner;")
    assert not rust.import_arrows([there])
    assert len(rust.import_arrows([there, back])) == 2
    feed = rust_sample("use crate::wheel::Wheel;", "rust/core/src/schedule_log/feed/mod.rs")
    wheel = rust_sample("use crate::schedule_log::Entry;", "rust/core/src/wheel/mod.rs")
    assert not rust.import_arrows([feed, wheel])


def test_files_that_import_each_other_are_found() -> None:
    above = rust_sample("mod a;\nmod b;\npub use a::A;")
    there = rust_sample("use super::b::{B, C as D};", "rust/core/src/run/a.rs")
    back = rust_sample("use crate::run::A;", "rust/core/src/run/b.rs")
    only_for_tests = rust_sample("#[cfg(test)]\nmod tests {\n use crate::run::A;\n}", "rust/core/src/run/b.rs")
    assert len(cycles.import_cycles([above, there, back], {})) == 1
    assert not cycles.import_cycles([above, there, back], {"rust/core": 2})
    assert not cycles.import_cycles([above, there], {})
    assert not cycles.import_cycles([above, there, only_for_tests], {})


def test_a_module_without_a_level_is_found() -> None:
    assert rust.import_arrows([rust_sample("", "rust/core/src/mystery.rs")])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Who reads a store needs no lock.", 1),
        ("It is short. What races is decided by the log.", 1),
        ("- Of a file, the size.", 1),
        ("| name | Such a row is found. |", 1),
        ("The limit is told, and the rest is owed, too.", 3),
        ("A file beside the log, and one of them.", 2),
        ("Stores hold messages until they\nare given up.", 1),
        ("Who may read the files?", 0),
        ("## What is pending", 0),
        ("`told` [a file](beside.md)\n\n```\nWho is told?\n```\n<!-- told -->", 0),
        ("The caller, who waits, reads what is there.", 0),
    ],
)
def test_english_that_is_not_plain_is_found(text: str, found: int) -> None:
    assert len(english.plain_english(Source("docs/a.md", f"# Title\n\n{text}\n"))) == found
    assert len(english.plain_english(Source("docs/decisions/a.md", f"# Title\n\n{text}\n"))) == found
    assert not english.plain_english(Source("CONTRIBUTING.md", f"# Title\n\n{text}\n"))
    assert not english.plain_english(Source("docs/a.py", text))


def test_a_document_without_a_title_is_found() -> None:
    assert documents.untitled(Source("docs/a.md", "words\n# late"))
    assert documents.untitled(Source("docs/a.md", ""))
    assert not documents.untitled(Source("docs/a.md", "# Title\n"))


def test_a_glossary_row_without_its_file_is_found() -> None:
    table = "# Glossary\n\n| stage | core |\n|---|---|\n| run | `rust/core/src/run/` |\n"
    assert documents.glossary_files(Source("docs/glossary.md", table), frozenset())
    assert documents.glossary_files(Source("docs/glossary.md", "# Glossary\n"), frozenset())
    assert not documents.glossary_files(Source("docs/glossary.md", table), frozenset({"rust/core/src/run"}))


@pytest.mark.parametrize(
    ("stage", "path", "good"),
    [
        ("recovery", "python/delaymq/_store/recovery.py", True),
        ("recovery", "rust/core/src/record/mod.rs", False),
        ("recovery", "rust/engine/src/opening.rs", False),
        ("run", "tests/format_reader/runs.py", True),
        ("run", "rust/core/src/run/mod.rs", True),
        ("run", "rust/core/src/store/rules.rs", False),
        ("verification", "python/delaymq/cli/verbs/verify.py", True),
        ("dead letter", "python/delaymq/cli/verbs/dead.py", True),
        ("commit", "rust/core/src/message_log/append/commit_tests.rs", True),
        ("step", "rust/engine/src/store.rs", False),
    ],
)
def test_a_file_that_is_not_called_as_its_stage_is_found(stage: str, path: str, good: bool) -> None:
    table = f"# Glossary\n\n| stage | core |\n|---|---|\n| {stage} | `{path}` |\n"
    assert bool(documents.glossary_stems(Source("docs/glossary.md", table))) is not good


STRUCT = """
const FRONT: usize = 2 << 2;
pub const WHOLE_BYTES: usize = FRONT + 0x1_0;
pub const NAME: [u8; 4] = *b"ABCD";
#[repr(C)]
pub struct Header {
    pub magic: [u8; 8],
    pub(crate) number: U32,
    kind: u8,
}
pub enum Sort {
    /// One.
    First = 1,
    Second = 2,
}
"""


@pytest.mark.parametrize(
    ("rows", "good"),
    [
        ("| 0 | 8 | `magic` |\n| 8 | 4 | `number` |\n| 12 | 1 | `kind` |", True),
        ("| 0 | 8 | `magic` |\n| 8 | 4 | `number` |\n| 11 | 1 | `kind` |", False),
        ("| 0 | 8 | `magic` |\n| 8 | 8 | `number` |\n| 12 | 1 | `kind` |", False),
        ("| 0 | 8 | `magic` |\n| 8 | 4 | `count` |\n| 12 | 1 | `kind` |", False),
        ("| 0 | 8 | `magic` |\n| 8 | 4 | `number` |", False),
    ],
)
def test_a_table_that_differs_from_its_struct_is_found(rows: str, good: bool) -> None:
    page = Source(
        "docs/format.md", f"<!-- struct: a.rs Header -->\n| offset | bytes | field |\n|---|---|---|\n{rows}\n"
    )
    assert bool(documents.format_against_rust(page, {"a.rs": STRUCT})) is not good
    assert documents.format_against_rust(page, {"a.rs": ""})


@pytest.mark.parametrize(
    ("row", "good"),
    [
        ("| `WHOLE_BYTES` | 24 | `a.rs` |", True),
        ("| `FRONT` | 8 | `a.rs` |", True),
        ("| `NAME` | `ABCD` | `a.rs` |", True),
        ("| `WHOLE_BYTES` | 25 | `a.rs` |", False),
        ("| `NAME` | `ABCE` | `a.rs` |", False),
        ("| `MISSING` | 1 | `a.rs` |", False),
        ("| `Sort::Second` | 2 | `a.rs` |", True),
        ("| `Sort::Second` | 1 | `a.rs` |", False),
        ("| `Sort::Third` | 3 | `a.rs` |", False),
        ("| `Kind::First` | 1 | `a.rs` |", False),
    ],
)
def test_a_constant_that_differs_is_found(row: str, good: bool) -> None:
    page = Source("docs/format.md", f"<!-- constants -->\n\n| constant | value | file |\n|---|---|---|\n{row}\n")
    assert bool(documents.format_against_rust(page, {"a.rs": STRUCT})) is not good


KIND_TABLES = """# Format

<!-- constants -->
| constant | value | file |
|---|---|---|
| `KIND_GROUP_END` | 7 | `a.rs` |

<!-- kinds -->
| kind | fact | file of its bytes |
|---|---|---|
| 3 | kept for *move* | |
| 7 | group end | `a.rs` |
"""


@pytest.mark.parametrize(
    ("page", "code", "good"),
    [
        (KIND_TABLES, "pub const KIND_GROUP_END: u8 = 7;", True),
        (KIND_TABLES, "pub const KIND_GROUP_END: u8 = 8;", False),
        (KIND_TABLES, "pub const KIND_GROUP_END: u8 = 7;\npub const KIND_MOVE: u8 = 3;", False),
        (KIND_TABLES.replace("| 7 | group end", "| 8 | group end"), "pub const KIND_GROUP_END: u8 = 7;", False),
        (KIND_TABLES.replace("| 7 | group end | `a.rs` |\n", ""), "pub const KIND_GROUP_END: u8 = 7;", False),
        (KIND_TABLES.replace("| `KIND_GROUP_END` | 7 | `a.rs` |\n", ""), "const KIND_GROUP_END: u8 = 7;", False),
    ],
)
def test_a_kind_that_differs_or_is_not_listed_is_found(page: str, code: str, good: bool) -> None:
    assert bool(documents.format_against_rust(Source("docs/format.md", page), {"a.rs": code})) is not good


PLANTED = {
    faults.ENUM: "faults! {\n    /// Words.\n    AckBeforeSync,\n    /// Words.\n    OneTickEarly,\n}\n",
    "Makefile": "ci: ## all\n\tpart $(MAKE) --no-print-directory power-cuts\n\nother:\n",
    "a/b.rs": "#[test]\nfn early() {\n    sees(Planted::OneTickEarly); // }\n}\n#[test]\nfn other() {}\n",
    "cuts.py": 'FAULTS = ("AckBeforeSync",)\n',
}
ASKED = {"a.rs": "if is_on(Planted::AckBeforeSync) {}", "b.rs": "if planted::is_on(\n Planted::OneTickEarly\n) {}"}
FAULTS_TABLE = """# Guarantees

<!-- faults -->
| fault | what a user would see | found by |
|---|---|---|
| `AckBeforeSync` | lost | power cuts: `cuts.py`, `make power-cuts` |
| `OneTickEarly` | early | histories: `a/b.rs::early` |
"""


def test_a_table_of_faults_that_agrees_is_fine() -> None:
    assert not faults.against_the_table(Source("g.md", FAULTS_TABLE), PLANTED, ASKED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| `OneTickEarly` | early | histories: `a/b.rs::early` |\n", ""),
        ("`OneTickEarly`", "`TwoTicksEarly`"),
        ("| early |", "| |"),
        ("a/b.rs::early", "a/b.rs::other"),
        ("a/b.rs::early", "a/b.rs::late"),
        ("a/b.rs::early", "b.rs::early"),
        ("histories: `a/b.rs::early`", "nothing"),
        ("`make power-cuts`", "`make torture`"),
        (", `make power-cuts`", ""),
        ("`cuts.py`", "`none.py`"),
        ("<!-- faults -->", ""),
    ],
)
def test_a_table_of_faults_that_is_wrong_is_found(old: str, new: str) -> None:
    assert old in FAULTS_TABLE
    assert faults.against_the_table(Source("g.md", FAULTS_TABLE.replace(old, new)), PLANTED, ASKED)


def test_a_fault_that_no_code_asks_for_is_found() -> None:
    found = faults.against_the_table(Source("g.md", FAULTS_TABLE), PLANTED, {"a.rs": ASKED["a.rs"]})
    assert [finding.what for finding in found] == ["no code asks for OneTickEarly"]
