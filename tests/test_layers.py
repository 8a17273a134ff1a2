"""Law 1: imports go down the floors, there are no circles, and no import hides inside a function."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "codl"
FLOORS = (
    {"errors", "_interrupts", "lazy", "runtime"},
    {"files", "limits", "outputs", "host_session"},
    {"assets", "machine", "ir", "values"},
    {"cache"},
    {"frontend", "catalog", "plan"},
    {"latency", "devices", "report", "options"},
    {"simulator"},
    {"profiler", "partitioner", "executor", "tuner", "analysis", "compat", "capi"},
    {"session"},
    {"__init__", "backend"},
    {"cli"},
    {"__main__"},
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def room_of(module: str) -> str:
    """Return the room of a module: the second part of its name."""
    return module.split(".")[1] if "." in module else "__init__"


def iterate_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of everything a tree imports; names of `from` imports appended when modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their floor"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module or ""


def read_imports(file: Path) -> set[str]:
    return set(iterate_imports(ast.parse(file.read_text(encoding="utf-8"))))


def inner_imports(module: str) -> set[str]:
    return {name for name in read_imports(MODULES[module]) if name in MODULES and name != module}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_the_floors(module: str) -> None:
    room = room_of(module)
    wrong = [
        name
        for name in inner_imports(module)
        if room_of(name) != room and FLOOR_OF[room_of(name)] >= FLOOR_OF[room]
    ]

    assert not wrong, f"{module} (floor {FLOOR_OF[room]}) imports {wrong}"


def test_every_room_has_a_floor() -> None:
    assert {room_of(module) for module in MODULES} <= set(FLOOR_OF)


def test_imports_have_no_circles() -> None:
    graph = {module: inner_imports(module) for module in MODULES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for name in graph[module]:
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


LATE = {"codl.session.late"}
"""Modules whose very business it is to import others when they are first needed."""


@pytest.mark.parametrize("module", [name for name in MODULES if room_of(name) != "cli" and name not in LATE])
def test_no_import_hides_inside_a_function(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    functions = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    )

    hidden = [name for function in functions for name in iterate_imports(function)]

    assert not hidden, f"{module} imports {hidden} inside a function"


@pytest.mark.parametrize("module", [name for name in MODULES if room_of(name) not in {"devices", "executor"}])
def test_only_devices_and_executor_touch_opencl(module: str) -> None:
    assert not [name for name in read_imports(MODULES[module]) if name.split(".")[0] == "pyopencl"]


@pytest.mark.parametrize("module", [n for n in MODULES if room_of(n) not in {"runtime", "errors", "capi"}])
def test_programs_may_put_codl_in_the_place_of_onnxruntime(module: str) -> None:
    assert not [name for name in read_imports(MODULES[module]) if name.split(".")[0] == "onnxruntime"]


@pytest.mark.parametrize("room", ["catalog", "partitioner", "simulator", "latency", "profiler"])
def test_a_session_begins_without(room: str) -> None:
    script = (
        f"import sys, codl.session.session; sys.exit(any(m.startswith('codl.{room}') for m in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_nothing_unpickles_or_evaluates() -> None:
    for module, file in MODULES.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        banned = {"pickle", "marshal", "shelve", "dill", "joblib"} & {
            name.split(".")[0] for name in read_imports(file)
        }

        assert not called & {"eval", "exec"}, module
        assert not banned, module
