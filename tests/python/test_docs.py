"""The documentation's links, anchors and file names lead somewhere, and its prose fits 120 columns."""
import importlib.util
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("benchmarks", "cli", "cmake", "configs", "docs", "doctor", "examples", "experiments", "fuzz", "lab", "normball", "normball_torch",
           "page", "plot", "python", "scripts", "tests", "trainer")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
OTHERS_FILES = {"clippedscion.py", "scion.py", "data/cached_fineweb10B.py"}


def outside_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text):
    """The names that GitHub gives to headings."""
    names = set()
    for heading in re.findall(r"^#+ +(.*)$", outside_code(text), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = 0
        while (name if number == 0 else f"{name}-{number}") in names:
            number += 1
        names.add(name if number == 0 else f"{name}-{number}")
    return names


def broken_links(page, text):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", outside_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path
        if path and not file.exists():
            broken.append(target)
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8") if path else text):
            broken.append(target)
    return broken


def source_names():
    names = {file.name for file in ROOT.iterdir()}
    for folder in FOLDERS:
        for _, folders, files in os.walk(ROOT / folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            names.update(files)
    return names


def missing_files(text, names):
    """Sources that the text names in code spans, by a path from the root or by the file's name alone."""
    missing = []
    for span in re.findall(r"`([^`\n]+)`", outside_code(text)):
        word = span.split()[0]
        if not re.fullmatch(r"[\w./-]+", word) or word in OTHERS_FILES:
            continue
        if "/" in word and word.split("/")[0] in FOLDERS:
            # A program is named without the suffix of its source.
            found = any((ROOT / (word + suffix)).exists() for suffix in ("", ".cpp"))
        elif re.search(r"\w\.(h|cpp|py|sh|cmake)$", word):
            found = word.rsplit("/", 1)[-1] in names
        else:
            continue
        if not found:
            missing.append(word)
    return missing


def long_lines(text):
    return [line for line in outside_code(text).splitlines()
            if len(line) > 120 and not line.startswith(("|", "    ", "!["))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_resolve(page):
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_named_files_exist():
    names = source_names()
    # The changelog also names what is gone.
    # extending.md names the files that it adds.
    missing = {str(page.relative_to(ROOT)): missing_files(page.read_text(encoding="utf-8"), names)
               for page in PAGES if page.name not in ("CHANGELOG.md", "extending.md")}
    assert {page: files for page, files in missing.items() if files} == {}


def test_prose_fits_120_columns():
    # configuration.md is printed by the program.
    pages = [page for page in PAGES if page.name not in ("CHANGELOG.md", "configuration.md")]
    long = {str(page.relative_to(ROOT)): long_lines(page.read_text(encoding="utf-8")) for page in pages}
    assert {page: lines for page, lines in long.items() if lines} == {}


def test_mistakes_are_found():
    page = ROOT / "docs" / "page.md"
    text = "# A `norm`, its ball\n\n[a](#a-norm-its-ball) [b](#ball) [c](no.md) [d](torch.md#routing) [e](torch.md#no)\n"
    assert broken_links(page, text) == ["#ball", "no.md", "torch.md#no"]
    text = "`normball/polar.h` `normball/no.h` `polar.h` `no.cpp` `trainer/data` `trainer/no` `a.toml`"
    assert missing_files(text, source_names()) == ["normball/no.h", "no.cpp", "trainer/no"]
    assert len(long_lines("x" * 121 + "\n| " + "x" * 121 + "\n")) == 1


def test_the_table_of_stepsizes_is_that_of_the_results():
    spec = importlib.util.spec_from_file_location("compare", ROOT / "experiments" / "stepsizes" / "compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    table = compare.table(ROOT / "experiments" / "stepsizes" / "results")
    assert table in (ROOT / "docs" / "stepsizes.md").read_text(encoding="utf-8"), f"docs/stepsizes.md needs:\n{table}"
