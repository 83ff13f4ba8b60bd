"""_core.pyi is written by hand; the compiled module describes itself in the first lines of its doc strings."""
import ast
import inspect
import pathlib
import re

import normball
import pytest
from normball import _core

STUB = ast.parse(pathlib.Path(normball.__file__).with_name("_core.pyi").read_text())
# What pybind11 accepts or returns, as versions from 2.10 to 3 write it, and what a stub says for it.
SAME = {"object": "Any", "SupportsFloat": "float", "SupportsInt": "int", "SupportsIndex": "int", "ndarray": "NDArray",
        "ArrayLike": "NDArray", "Sequence": "List", "list": "List", "Mapping": "Dict", "dict": "Dict", "tuple": "Tuple"}


def type_of(node):
    """A type as (name, arguments), without what differs between the two notations and not in meaning."""
    if isinstance(node, ast.Constant):
        return "None" if node.value is None else type_of(ast.parse(node.value, mode="eval").body)
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return SAME.get(name, name)
    if isinstance(node, ast.BinOp):  # a | b
        left, right = type_of(node.left), type_of(node.right)
        if right == "None":
            return ("Optional", left)
        return "float" if {left, right} == {"float", "int"} else left if left == right else ("Union", left, right)
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):  # float[3]: of an array in C++
        return type_of(node.value)
    arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    name = type_of(node.value)
    if name == "Annotated":
        return type_of(arguments[0])
    return name if name == "NDArray" else (name, *map(type_of, arguments))


def agree(stub, module):
    """A bare list, dict or tuple of the module leaves open what is in it."""
    if isinstance(stub, tuple) and isinstance(module, tuple):
        return len(stub) == len(module) and all(map(agree, stub, module))
    return stub == module or isinstance(stub, tuple) and stub[0] == module and module in ("List", "Dict", "Tuple")


def parameters_of(function):
    """[(name, keyword only, has a default, type)], without self."""
    a = function.args
    assert not (a.posonlyargs or a.vararg or a.kwarg), f"{function.name} has parameters that this test cannot compare"
    defaults = [None] * (len(a.args) - len(a.defaults)) + list(a.defaults)
    found = []
    for keyword_only, arguments, values in ((False, a.args, defaults), (True, a.kwonlyargs, a.kw_defaults)):
        for argument, value in zip(arguments, values):
            if argument.arg != "self":
                own = type_of(argument.annotation)
                if isinstance(value, ast.Constant) and value.value is None and own != "Any" and own[0] != "Optional":
                    own = ("Optional", own)
                found.append((argument.arg, keyword_only, value is not None, own))
    return found


def signatures(name, doc):
    """The function definitions in pybind11's doc string: one, or one for each overload."""
    lines = re.findall(rf"^(?:\d+\. )?({name}\(.*\) -> .*)$", doc, re.MULTILINE)
    assert lines, f"{name} has no signature in {doc!r}"
    return [ast.parse("def " + re.sub(r"<.*?>", "...", line) + ": ...").body[0] for line in lines]


def check_function(where, stub, doc):
    for module in signatures(stub.name, doc):
        mine, theirs = parameters_of(stub), parameters_of(module)
        assert [p[:3] for p in mine] == [p[:3] for p in theirs], f"{where}: stub {mine}, module {theirs}"
        for a, b in zip(mine, theirs):
            assert agree(a[3], b[3]), f"{where}, {a[0]}: stub {a[3]}, module {b[3]}"
        returned = type_of(stub.returns), type_of(module.returns)
        assert agree(*returned), f"{where}: stub returns {returned[0]}, module {returned[1]}"


def stub_members(cls):
    """A class's functions, its own and those of its bases in the stub."""
    found = {}
    for base in cls.bases:
        if isinstance(base, ast.Name) and base.id in CLASSES:
            found.update(stub_members(CLASSES[base.id]))
    found.update({node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)})
    return found


def module_members(cls):
    """What the class itself offers: of the special functions only __init__, where it can be called."""
    return {name: value for name, value in vars(cls).items()
            if not name.startswith("_") or name == "__init__" and "self: " in (value.__doc__ or "")}


CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
VARIABLES = {node.target.id: node for node in STUB.body if isinstance(node, ast.AnnAssign)}
BASES = {base.id for cls in CLASSES.values() for base in cls.bases if isinstance(base, ast.Name)}
# A class with an underscore is what several have in common, and only there for them.
OFFERED = {name for name in CLASSES if not (name.startswith("_") and name in BASES)}


def test_the_same_names():
    module = {name for name in dir(_core) if not name.startswith("_") or name == "__version__"}
    assert OFFERED | set(FUNCTIONS) | set(VARIABLES) == module


def test_variables():
    for name, node in VARIABLES.items():
        assert type(getattr(_core, name)).__name__ == type_of(node.annotation)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name):
    check_function(name, FUNCTIONS[name], getattr(_core, name).__doc__)


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_classes(name):
    stub, cls = CLASSES[name], getattr(_core, name)
    assert inspect.isclass(cls)
    if issubclass(cls, BaseException):
        assert [type_of(base) for base in stub.bases] == [base.__name__ for base in cls.__bases__]
        return
    mine, theirs = stub_members(stub), module_members(cls)
    assert set(mine) == set(theirs)
    for member, node in mine.items():
        decorators = [d.id for d in node.decorator_list]
        assert (decorators == ["property"]) == isinstance(theirs[member], property), f"{name}.{member}"
        if decorators:
            assert theirs[member].fset is None, f"{name}.{member} can be set, which the stub does not say"
            getter = signatures("getter", "getter" + theirs[member].fget.__doc__)[0]
            assert agree(type_of(node.returns), type_of(getter.returns)), f"{name}.{member}"
        else:
            check_function(f"{name}.{member}", node, theirs[member].__doc__)


@pytest.mark.parametrize("stub, module", [
    ("def f(a: int) -> None: ...", "f(b: int) -> None"),
    ("def f(a: int) -> None: ...", "f(a: str) -> None"),
    ("def f(a: int) -> None: ...", "f(a: int = 3) -> None"),
    ("def f(a: int) -> None: ...", "f(*, a: int) -> None"),
    ("def f(a: int) -> None: ...", "f(a: int, b: int) -> None"),
    ("def f(a: int) -> None: ...", "f(a: Optional[int]) -> None"),
    ("def f(a: List[int]) -> None: ...", "f(a: List[float]) -> None"),
    ("def f() -> Tuple[int, str]: ...", "f() -> Tuple[int]"),
    ("def f() -> int: ...", "f() -> object")])
def test_a_difference_is_found(stub, module):
    with pytest.raises(AssertionError):
        check_function("f", ast.parse(stub).body[0], module)


@pytest.mark.parametrize("stub, module", [
    ("def f(a: float = ...) -> None: ...", "f(a: typing.SupportsFloat | typing.SupportsIndex = 1.0) -> None"),
    ("def f(a: Optional[str] = ...) -> None: ...", "f(a: str | None = None) -> None"),
    ("def f(a: Optional[Method] = ...) -> None: ...", "f(a: normball._core.Method = None) -> None"),
    ("def f(a: Sequence[int]) -> List[int]: ...", "f(a: collections.abc.Sequence[int]) -> list[int]"),
    ("def f(a: npt.NDArray[Any]) -> None: ...", "f(a: typing.Annotated[numpy.typing.ArrayLike, numpy.float32]) -> None"),
    ("def f() -> List[List[float]]: ...", "f() -> List[List[float[3]]]"),
    ("def f() -> List[float]: ...", "f() -> Annotated[list[float], 'FixedSize(3)']"),
    ("def f() -> Dict[str, int]: ...", "f() -> dict")])
def test_another_notation_is_none(stub, module):
    check_function("f", ast.parse(stub).body[0], module)
