"""docs/notes/defects.md: every defect has a test, and the tests that it names exist and are run."""
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
TABLE = ROOT / "docs" / "notes" / "defects.md"
IDS = ([f"L{i}" for i in range(1, 24)] + [f"T{i}" for i in range(1, 23)] + [f"M{i}" for i in range(1, 5)]
       + [f"X{i}" for i in range(1, 8)] + [f"B{i}" for i in range(1, 9)] + [f"docs {i}" for i in range(1, 9)] + ["test"])
SUITE = r"[A-Z]\w+\.[A-Z]\w+"  # of GoogleTest


def rows(text):
    """(id, what, guarded by) of each defect."""
    cells = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] != "#"]


def named_tests(guards):
    """What the cell names in code spans that has the form of a test's name."""
    return [span for span in re.findall(r"`([^`]+)`", guards) if re.fullmatch(rf"{SUITE}|\w+\.py::\w+|\w+::\w+|[a-z_]+", span)]


class Registered:
    """The tests that the sources have and CMake runs."""

    def __init__(self):
        cmake = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("CMakeLists.txt"))
        self.cmake = re.sub(r"#.*", "", cmake)
        self.programs = {}  # of GoogleTest's names
        for file in (ROOT / "tests").rglob("*_test.cpp"):
            for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text(), re.MULTILINE):
                self.programs.setdefault(f"{suite}.{name}", []).append(file.stem)

    def is_run(self, name):
        """Whether CMake has a test or a program of tests of that name."""
        return re.search(rf"(?<![\w./]){name}(?![\w.])", self.cmake) is not None or (
            name.startswith("python_") and self.is_run(name[len("python_"):]))

    def has(self, test):
        if re.fullmatch(SUITE, test):
            return any(self.is_run(program) for program in self.programs.get(test, []))
        file, _, function = test.partition("::")
        if not function:
            return self.is_run(test)
        if file.endswith(".py"):
            path, form = ROOT / "tests" / "python" / file, rf"^def {function}\("
            run = self.is_run(file[len("test_"):-len(".py")])
        else:
            path, form = ROOT / "tests" / "normball" / f"{file}.c", rf"^  {function}\(\);"  # called
            run = self.is_run(file)
        return run and path.exists() and re.search(form, path.read_text(), re.MULTILINE) is not None


def test_every_defect_is_in_the_table_once():
    assert [row[0] for row in rows(TABLE.read_text(encoding="utf-8"))] == IDS


def test_named_tests_exist_and_are_run():
    tests = Registered()
    missing = {}
    for number, _, guards in rows(TABLE.read_text(encoding="utf-8")):
        named = named_tests(guards)
        lost = [test for test in named if not tests.has(test)]
        if lost:
            missing[number] = lost
        assert named or re.search(r"is gone|not changed", guards), f"{number} has neither a test nor a reason"
    assert missing == {}


def test_a_test_that_is_not_there_is_missed():
    tests = Registered()
    for name in ("Gate.GradientsOfAnotherShape", "test_boundary.py::test_pending_signs_are_read", "run_directory_test",
                 "c_api_test::test_layer_reports"):
        assert tests.has(name), name
    for name in ("Gate.GradientsOfNoShape", "test_boundary.py::test_pending", "run_directory", "no_test",
                 "c_api_test::test_layer", "test_nothing.py::test_pending_signs_are_read"):
        assert not tests.has(name), name
    assert named_tests("`Gate.AB`, `a_test`, [x](y.md), `test_a.py::test_b`; `--resume FILE`, `README.md`") == [
        "Gate.AB", "a_test", "test_a.py::test_b"]
