"""The rules of the house, checked on the source itself (ARCHITECTURE.md, "Rules")."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

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

# A floor imports those with a smaller number only; nsq and rocketmq never import each other.
FLOORS = {
    "core": 0,
    "net": 1,
    "cluster": 2,
    "storage": 2,
    "broker": 3,
    "node": 4,
    "replication": 5,
    "nsq": 6,
    "rocketmq": 6,
    "spark": 7,
    "admin": 8,
    "arrow": 8,
    "cli": 9,
    "testing": 10,
}
# Likewise the rooms of tools, which tests import, and which import no tests.
ROOMS = {
    "harness": 0,
    "coverage": 1,
    "deploy": 1,
    "fuzz": 1,
    "loads": 1,
    "monitoring": 1,
    "pages": 1,
    "browser": 2,
    "campaigns": 2,
    "reference": 2,
    "release": 2,
    "replay": 2,
}
OF_TESTS = re.compile(r"^\s*(?:from|import) tests\b|\btests\.[a-z]", re.MULTILINE)
"""An import of tests, or the name of a module of theirs, as of a program that is started."""
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
FILES_FLAT_MAX = 20
FUNCTION_LINES_MAX = 70
FILE_BYTES_MAX = 200 * 1024
FIXTURES = "tests/conformance/samples/"
PURE = {"asyncio", "socket", "os", "time", "random", "threading", "subprocess"}
# Phrases that a stranger reads twice. The sentence is made another one: "the first ``count``", "an
# invalid address", "lists", "again", "its own thread", "the group that reads".
HARD_TO_READ = re.compile(
    r"\b[Ss]o (?:many|much|long)\b(?! (?:as|that)\b)"
    r"|(?<!\b[Tt]here )\b(?:is|are|was|were) none\b"
    r"|\b(?:tells?|told|telling) of\b|\banew\b|\bof (?:its|their|our) own\b"
    r"|[.;] [Ww]ho [a-z]|\b(?:for|than|of|by|to|but) who (?!it\b|they\b|is\b|are\b)"
)
# Names of errors end in Error. In clients, tools and commands the members of a family may be named
# after what happened: TopicNotFound, NotConnected.
NAMED_AFTER_WHAT_HAPPENED = (
    "cli/",
    "nsq/client/",
    "nsq/tools/",
    "rocketmq/client/",
    "rocketmq/mqadmin/",
)
NO_ERRORS = {"HelpRequested", "StopRequested", "_Stop"}  # they ask for an end
# A code mark of one backtick; help texts of `penstock` are marked as pages are.
SINGLE_MARKS = re.compile(r"(?<!`)`(?!`)[^`]+(?<!`)`(?!`)")
HELP = re.compile(r"\bcommand\b|\bdefault\b|Parameter")
PAGES_NOT_READ_YET = re.compile(
    r"README\.md|bench/README\.md|docs/(?:concepts|replication|sizing)\.md"
    r"|docs/(?:pipelines|spark)[\w/.-]*\.md|CHANGELOG\.md"
)
ONLY_IN = {
    # nsq_to_file's files are its user's: names, modes, moves and words of Go's program, no log's.
    "os.fsync": {"storage/files/disk.py", "nsq/tools/to_file/file_system.py"},
    "os.fdatasync": {"storage/files/disk.py"},
    "time.time": {"core/clock.py"},
    "time.time_ns": {"core/clock.py"},
    "time.monotonic": {"core/clock.py"},
    "time.monotonic_ns": {"core/clock.py"},
    "loop.create_task": {"net/tasks.py"},
    "asyncio.create_task": {"net/tasks.py"},
    "asyncio.ensure_future": {"net/tasks.py"},
}


def imports(module: Path) -> Iterator[str]:
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or module.is_relative_to(TOOLS), f"{module}: relative import"
            yield node.module or "" if node.level == 0 else ""


def floor_of(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def crossed(package: Path, floors: dict[str, int]) -> list[str]:
    """The imports that lead to another floor of a package that is not below."""
    return [
        f"{path} imports {imported}"
        for module in sorted(package.rglob("*.py"))
        if (own := floor_of(path := module.relative_to(package).as_posix())) in floors
        for imported in imports(module)
        if (parts := imported.split("."))[0] == package.name and len(parts) > 1
        if parts[1] != own and floors[parts[1]] >= floors[own]
    ]


def test_floors() -> None:
    assert crossed(SOURCE, FLOORS) == []


def test_tools_import_what_is_below_and_no_tests() -> None:
    """Nor do they start a module of the tests; the broker needs neither tests nor tools."""
    tools = sorted(TOOLS.rglob("*.py"))
    rooms = {floor_of(each.relative_to(TOOLS).as_posix()) for each in tools}
    assert rooms - {"__init__"} == set(ROOMS)
    assert crossed(TOOLS, ROOMS) == []
    assert [str(each) for each in tools if OF_TESTS.search(each.read_text("utf-8"))] == []
    outside = {"tests", "tools", "bench"}
    tops = {name(each): outside & {one.split(".")[0] for one in imports(each)} for each in MODULES}
    assert {module: found for module, found in tops.items() if found} == {}


def test_modules_of_tests_are_found_in_tools() -> None:
    named = ("from tests.sim import pair", "  import tests", '"-m", "tests.crash.held_nsqd"')
    others = ("from testsuite import x", "the tests. They end", "duty.tests}", "tests/conformance")
    assert [each for each in (*named, *others) if OF_TESTS.search(each)] == [*named]


def module_name(module: Path) -> str:
    return ".".join(module.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def imported_modules(module: Path, known: Collection[str]) -> set[str]:
    """The modules that a module imports anywhere: within functions and for its types as well."""
    found = set()
    for node in nodes(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            each = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (each & set(known)) or {node.module or ""}
    return (found & set(known)) - {module_name(module)}


def circles(left: dict[str, set[str]]) -> dict[str, list[str]]:
    """Those that import themselves by way of others, or are above such ones."""
    while leaves := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in leaves}
    return {name: sorted(imported & left.keys()) for name, imported in left.items()}


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Not even for types: what is told apart here can be read, and changed, by itself."""
    known = {module_name(module) for module in MODULES}
    assert not circles({module_name(each): imported_modules(each, known) for each in MODULES})


def test_no_room_of_the_rocketmq_broker_imports_itself_by_way_of_others() -> None:
    """A room is a folder or module there; ``services`` is above all that it builds."""
    home = "penstock.rocketmq.broker."
    known = {each for each in map(module_name, MODULES) if each.startswith(home)}
    rooms: dict[str, set[str]] = {}
    for module in MODULES:
        if module_name(module) in known:
            own = module_name(module).removeprefix(home).split(".")[0]
            others = {
                each.removeprefix(home).split(".")[0] for each in imported_modules(module, known)
            }
            rooms.setdefault(own, set()).update(others - {own})
    assert len(rooms) > 20
    assert not circles(rooms)


def test_protocols_and_the_broker_do_no_io() -> None:
    pure = [module for module in MODULES if "protocol" in name(module)]
    pure += [module for module in MODULES if name(module).startswith("broker/")]
    found = {name(each): PURE & {whole.split(".")[0] for whole in imports(each)} for each in pure}
    assert {module: banned for module, banned in found.items() if banned} == {}


def test_clock_tasks_and_syncs_have_one_home() -> None:
    free = ("testing/", "spark/pipelines/")
    modules = [module for module in MODULES if not name(module).startswith(free)]
    assert [each for module in modules for each in away_from_home(module)] == []


def away_from_home(module: Path) -> Iterator[str]:
    for node in nodes(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called = f"{node.value.id}.{node.attr}"
            if called in ONLY_IN and name(module) not in ONLY_IN[called]:
                yield f"{name(module)}:{node.lineno}: {called}"


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
    pages = [path for path in tracked() if path.endswith(".md")]
    texts = [ROOT / path for path in pages if not PAGES_NOT_READ_YET.fullmatch(path)]
    found = {path: hard_to_read(path) for path in (*MODULES, *WEB_FILES, *texts)}
    assert {str(path.relative_to(ROOT)): all_ for path, all_ in found.items() if all_} == {}


def test_hard_sentences_are_found() -> None:
    hard = (
        "for so long", "an address that is none", "is told of it", "made\n# anew",
        "a file of\n    its own", "It ends. Who asks", "for who asks",
    )  # fmt: skip
    easy = (
        "as long as that",
        "so long as",
        "so much that it ends",
        "there is none",
        "of who it is",
    )
    assert [text for text in (*hard, *easy) if HARD_TO_READ.search(flowing(text))] == [*hard]


def test_every_module_has_its_test() -> None:
    """Its unit test, or the one that needs a process or a port, or starts a real Spark."""
    programs = [each for each in MODULES if each.name not in ("__init__.py", "__main__.py")]
    assert [name(each) for each in programs if tree(each).body[1:] and not has_test(each)] == []


def has_test(module: Path) -> bool:
    path = Path(name(module))
    test = path.with_name(f"test_{path.name}")
    places = [Path("unit", test), Path("programs", test)]
    places += [Path("spark", test.name), Path("spark", "programs", test.name)]
    return any((ROOT / "tests" / each).exists() for each in places)


def test_a_folder_is_a_room() -> None:
    """A stranger finds a file by the name of its folder, so that has few files."""
    folders = Counter(path.parent for path in (*MODULES, *WEB_FILES))
    crowded = {name(folder): count for folder, count in folders.items() if count > FILES_FLAT_MAX}
    assert not crowded


def web_name(path: Path) -> str:
    return path.relative_to(WEB).as_posix()


@pytest.mark.parametrize("path", WEB_FILES, ids=web_name)
def test_web_files_make_no_markup_of_text_and_load_nothing_from_outside(path: Path) -> None:
    text = text_of(path)
    banned = BANNED_IN_WEB.search(text)
    assert not banned, banned and banned[0]
    outside = set(re.findall(r"https?://[^\s\"'`)]*", text)) - {"http://www.w3.org/2000/svg"}
    assert not outside
    if path.suffix == ".html":
        assert not re.search(r"<[^>]*\s(?:on\w+|style)\s*=|<style|@import", text)


@pytest.mark.parametrize("path", WEB_FILES, ids=web_name)
def test_sizes_and_lines_of_web_files(path: Path) -> None:
    lines = text_of(path).split("\n")
    assert lines.pop() == "", "ends with a line's end"
    if path.suffix == ".js":
        assert len(lines) <= WEB_LINES_MAX
    for number, line in enumerate(lines, 1):
        assert line == line.rstrip(), f"line {number} ends with blanks"
        assert "\t" not in line, f"line {number} has a tab"
        assert len(line) <= WEB_LINE_MAX, f"line {number} has {len(line)} characters"


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
    """Another program's logger beside it is called after that: copies_logger."""
    named = re.compile(r"^(\w+) = logging\.getLogger\(", re.MULTILINE)
    found = {name(module): set(named.findall(text_of(module))) for module in MODULES}
    others = {
        module: names
        for module, of in found.items()
        if (names := {each for each in of if each != "logger" and not each.endswith("_logger")})
    }
    assert others == {}


# Each of these files holds the same kind of thing, of another program or dialect.
SAME_EVERYWHERE = {
    "access", "api", "bodies", "commands", "config", "connection", "consumer",
    "copies", "daemon", "disk", "errors", "events", "groups", "hub", "letters", "message",
    "metrics", "name_servers", "names", "node", "nodes", "offsets", "options", "producer",
    "program", "progress", "publishing", "reader", "refusals", "resend", "routes", "run",
    "sending", "settings", "staging", "stats", "topics", "writer",
}  # fmt: skip


def test_a_name_of_files_means_one_thing() -> None:
    """A stranger who looks for a word finds one meaning of it: that of the list above."""
    stems = Counter(path.stem for path in MODULES)
    shared = {stem for stem, count in stems.items() if count > 2 and not stem.startswith("__")}
    assert shared == SAME_EVERYWHERE
