"""The package as a whole: its version, and its life without the native module."""

import subprocess
import sys
import tomllib
from pathlib import Path

import unisono
from unisono._build import build_info

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]

IMPORT_THE_PURE_PART = """
import importlib, pkgutil, sys
sys.modules["unisono._native"] = None  # from here on, importing it raises ModuleNotFoundError
import unisono
for module in pkgutil.walk_packages(unisono.__path__, "unisono.", lambda name: None):  # it is imported below
    native = ("agreement", "call", "communicator", "plans", "prepared", "programs", "requests", "runner")
    if module.name.startswith(("unisono.engine", "unisono.torch", "unisono.train")):
        continue
    if module.name not in ("unisono._native", *(f"unisono.comm.{name}" for name in native)):
        importlib.import_module(module.name)
from unisono._build import build_info
assert build_info() is None
try:
    unisono.init()
except unisono.errors.ConfigError as error:
    assert "without its native core" in str(error)
else:
    raise AssertionError("there is nothing to communicate with")
"""


def test_package_and_native_module_have_the_version_of_the_project():
    info = build_info()
    assert info is not None, "the native module is not installed"
    assert unisono.__version__ == info["version"] == PROJECT["version"]


def test_everything_but_communicating_imports_where_the_native_module_is_absent():
    run = subprocess.run([sys.executable, "-c", IMPORT_THE_PURE_PART], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_only_config_touches_the_environment():
    sources = (Path(__file__).parent.parent / "src" / "unisono").rglob("*.py")
    assert [path.name for path in sources if "os.environ" in path.read_text() or "getenv" in path.read_text()] == [
        "config.py"
    ]
