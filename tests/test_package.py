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
for module in pkgutil.walk_packages(unisono.__path__, "unisono."):
    if module.name != "unisono._native":
        importlib.import_module(module.name)
from unisono._build import build_info
assert build_info() is None
"""


def test_package_and_native_module_have_the_version_of_the_project():
    info = build_info()
    assert info is not None, "the native module is not installed"
    assert unisono.__version__ == info["version"] == PROJECT["version"]


def test_every_module_imports_where_the_native_module_is_absent():
    run = subprocess.run([sys.executable, "-c", IMPORT_THE_PURE_PART], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
