"""The rules of the house, checked on the source itself (ARCHITECTURE.md, "Rules")."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.source import (
    MODULES,
    ROOT,
    SOURCE,
    TOOLS,
    Documented,
    below_assignments,
    name,
    nodes,
    text_of,
    tree,
)

OF_TESTS = re.compile(r"\btests\.[a-z]")
"""The name of a module of the tests, as of a program that is started."""
WEB = SOURCE / "admin" / "web"
WEB_FILES = sorted(path for path in WEB.rglob("*") if path.suffix in (".js", ".css", ".html"))
WEB_LINES_MAX = 400
WEB_LINE_MAX = 110
# Names and bodies come from strangers: nothing in the pages makes markup or code of text.
BANNED_IN_WEB = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|srcdoc|document\.write"
    r"|\beval\(|new Function|javascript:|set(?:Timeout|Interval)\(\s*[\"'`]"
)
MODULE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
FILE_BYTES_MAX = 200 * 1024
FIXTURES = "tests/conformance/samples/"
# Phrases that a stranger reads twice. The sentence is made another one: "the first ``count``", "an
# invalid address", "lists", "again", "its own thread", "the group that reads".
HARD_TO_READ = re.compile(
    r"\b[Ss]o (?:many|much|long)\b(?! (?:as|that)\b)"
    r"|(?<!\b[Tt]here )\b(?:is|are|was|were) none\b"
    r"|\b(?:tells?|told|telling) of\b|\banew\b|\bof (?:its|their|our) own\b"
    r"|[.;] [Ww]ho [a-z]|\b(?:for|than|of|by|to|but) who (?!it\b|they\b|is\b|are\b)"
    r"|\bfrom wh(?:ich|ere) on\b|\bas far as\b|\bby now\b|\bthat which\b|\bof one's own\b"
    r"|(?<!\b[Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b)[\w`]"
)
# Of pages for users, beside code: "is not an X", "continues", "reports", "is notified", "invalid",
# "idempotent", "again from there".
HARD_FOR_USERS = re.compile(
    r"\bgo(?:es)? on\b|\btells\b|\b(?:is|are|was|were|be|been) told\b|\bwithout a word\b"
    r"|\bmakes? no sense\b|\bin the place of\b|\bbears? (?:it|a message)\b|\bmade again\b"
    r"|\bin its turn\b|\bfrom there on\b|\bhad better\b|\bhas? them twice\b|\ba last time\b"
)
CODE_ON_A_PAGE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
# Names of errors end in Error. In clients, tools and commands the members of a family may be named
# after what happened: TopicNotFound, NotConnected.
NAMED_AFTER_WHAT_HAPPENED = (
    "cli/",
    "log_api/",
    "nsq/client/",
    "nsq/tools/",
    "rocketmq/client/",
    "rocketmq/mqadmin/",
)
NO_ERRORS = {"HelpRequested", "StopRequested", "_Stop"}  # they ask for an end
# A code mark of one backtick; help texts of `penstock` are marked as pages are.
SINGLE_MARKS = re.compile(r"(?<!`)`(?!`)[^`]+(?<!`)`(?!`)")
HELP = re.compile(r"\bcommand\b|\bdefault\b|Parameter")


def test_tools_start_no_module_of_the_tests() -> None:
    """The one way to need tests that import-linter does not see (pyproject.toml)."""
    tools = sorted(TOOLS.rglob("*.py"))
    assert [str(each) for each in tools if OF_TESTS.search(each.read_text("utf-8"))] == []


def test_modules_of_tests_are_found_in_tools() -> None:
    named = ("from tests.sim import pair", '"-m", "tests.crash.held_nsqd"')
    others = ("from testsuite import x", "the tests. They end", "duty.tests}", "tests/conformance")
    assert [each for each in (*named, *others) if OF_TESTS.search(each)] == [*named]


def test_sizes() -> None:
    assert [name(each) for each in MODULES if lines_of(each) > MODULE_LINES_MAX] == []
    long = [
        f"{name(module)}: {node.name} has {length} lines"
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def lines_of(module: Path) -> int:
    return text_of(module).count("\n")


def test_a_module_says_what_it_is() -> None:
    silent = [name(each) for each in MODULES if len(ast.get_docstring(tree(each)) or "") <= 10]
    assert silent == []


def test_names_of_errors() -> None:
    wrong = [
        f"{name(module)}: {node.name}"
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.ClassDef) and node.name not in NO_ERRORS
        if not node.name.endswith("Error") and must_end_in_error(name(module), node)
    ]
    assert wrong == []


def must_end_in_error(module: str, node: ast.ClassDef) -> bool:
    """A member of a family derives from an error of ours, not from the language's alone."""
    above = [ast.unparse(base) for base in node.bases]
    is_member = any(base.endswith("Error") and not hasattr(builtins, base) for base in above)
    is_error = is_member or any(base.endswith(("Error", "Exception")) for base in above)
    return is_error and not (is_member and module.startswith(NAMED_AFTER_WHAT_HAPPENED))


def flowing(text: str) -> str:
    """A text without line ends, and without the marks of comments at the beginning of a line."""
    return re.sub(r"\s*\n\s*(?:#:? |// |\* )?\s*", " ", text)


def hard_to_read(path: Path) -> list[str]:
    text = flowing(text_of(path))
    found = HARD_TO_READ.finditer(text)
    return [text[max(0, each.start() - 40) : each.end() + 40] for each in found]


def test_sentences_are_understood_at_once() -> None:
    """Those of docstrings, comments, messages and pages."""
    pages = [ROOT / path for path in tracked() if path.endswith(".md")]
    found = {path: hard_to_read(path) for path in (*MODULES, *WEB_FILES, *pages)}
    assert {str(path.relative_to(ROOT)): all_ for path, all_ in found.items() if all_} == {}


def test_pages_for_users_are_in_the_words_of_the_field() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "bench" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    manual = [page for page in pages if page.parent.name != "spec"]
    texts = {page: flowing(CODE_ON_A_PAGE.sub("", text_of(page))) for page in manual}
    found = {
        str(page.relative_to(ROOT)): [
            text[max(0, each.start() - 40) : each.end() + 40]
            for each in HARD_FOR_USERS.finditer(text)
        ]
        for page, text in texts.items()
    }
    assert {page: all_ for page, all_ in found.items() if all_} == {}


def test_hard_sentences_are_found() -> None:
    hard = (
        "for so long", "an address that is none", "is told of it", "made\n# anew",
        "a file of\n    its own", "It ends. Who asks", "for who asks", "as far\nas it is known",
        "Penstock is no broker", "words of one's own", "from where on it holds",
    )  # fmt: skip
    easy = (
        "as long as that",
        "so long as",
        "so much that it ends",
        "there is none",
        "there is no slave",
        "it is no longer there",
        "of who it is",
    )
    assert [text for text in (*hard, *easy) if HARD_TO_READ.search(flowing(text))] == [*hard]
    users = ("it goes on", "is told so", "an argument that makes no sense")
    clear = ("continues",)
    assert [text for text in (*users, *clear) if HARD_FOR_USERS.search(text)] == [*users]


def test_web_files_make_no_markup_of_text_and_load_nothing_from_outside() -> None:
    for path in WEB_FILES:
        text = text_of(path)
        banned = BANNED_IN_WEB.search(text)
        assert not banned, (path, banned and banned[0])
        outside = set(re.findall(r"https?://[^\s\"'`)]*", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, path
        if path.suffix == ".html":
            assert not re.search(r"<[^>]*\s(?:on\w+|style)\s*=|<style|@import", text), path


def test_sizes_and_lines_of_web_files() -> None:
    """Beside what TypeScript says of them: Biome's and Prettier's layout takes ``h`` apart."""
    odd = re.compile(rf"[ \t]$|\t|^.{{{WEB_LINE_MAX + 1},}}$", re.MULTILINE)
    texts = {path: text_of(path) for path in WEB_FILES}
    assert {path: found[0] for path, text in texts.items() if (found := odd.search(text))} == {}
    assert [path for path, text in texts.items() if not text.endswith("\n")] == []
    scripts = [path for path in WEB_FILES if path.suffix == ".js"]
    assert [path for path in scripts if texts[path].count("\n") > WEB_LINES_MAX] == []


@cache
def tracked() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [path for path in listing.stdout.split("\0") if path and (ROOT / path).is_file()]


def test_no_large_or_foreign_files() -> None:
    for path in tracked():
        if not path.startswith(FIXTURES):
            assert (ROOT / path).stat().st_size <= FILE_BYTES_MAX, path
        assert not path.endswith((".min.js", ".jar", ".whl", ".so", ".class", ".pyc")), path
        assert not Path(path).name.startswith(".coverage"), path


def test_no_path_of_one_machine_and_no_left_over_marks() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/")
    markers = re.compile("|".join(words))
    for path in tracked():
        if path.endswith((".py", ".md", ".toml", ".txt", ".yml", "Makefile", "run")):
            text = text_of(ROOT / path)
            found = markers.search(text)
            assert not found, f"{path}: {found and found[0]}"


def docstrings_of(module: Path) -> Iterator[str]:
    """The docstrings of a module but help texts, and the texts below assignments."""
    for node in nodes(module):
        if isinstance(node, Documented):
            decorators = getattr(node, "decorator_list", ())
            if not any(HELP.search(ast.unparse(each)) for each in decorators):
                yield ast.get_docstring(node) or ""
                yield from below_assignments(node.body)


def test_docstrings_mark_code_with_double_backticks() -> None:
    found = {
        name(module): single
        for module in MODULES
        if (single := [one for text in docstrings_of(module) for one in SINGLE_MARKS.findall(text)])
    }
    assert found == {}


def test_a_modules_logger_has_one_name() -> None:
    """Another program's logger beside it is called after that: replication_logger."""
    named = re.compile(r"^(\w+) = logging\.getLogger\(", re.MULTILINE)
    found = {name(module): set(named.findall(text_of(module))) for module in MODULES}
    others = {
        module: names
        for module, of in found.items()
        if (names := {each for each in of if each != "logger" and not each.endswith("_logger")})
    }
    assert others == {}
