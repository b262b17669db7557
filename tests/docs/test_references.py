"""Every file, module and config key that the documentation names exists, and every key is documented."""

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rlher
from rlher.cli.commands import COMMANDS
from rlher.config.algorithms import ALGORITHMS
from rlher.config.key import keys_of
from rlher.config.training import all_run_keys
from rlher.config.tuning import OptimizeConfig
from tests.support.documents import NAMES, ROOT, prose

FOLDERS = ("rlher", "conf", "hyperparams", "scripts", "tests", "docs", ".ci")
SUFFIXES = (".py", ".sh", ".toml")
NOT_HERE = {"my_code.py", "my_goals.py"}
"""Files that rlher or the reader writes."""


@pytest.fixture(scope="module")
def files() -> set[str]:
    """List the names of all files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    return {Path(line).name for line in listed.stdout.splitlines()}


@pytest.mark.parametrize("name", NAMES)
def test_paths_exist(name: str, files: set[str]) -> None:
    missing = []
    for span in re.findall(r"`([^`\n]+)`", prose(name)):
        word = span.split()[0].rstrip("/")
        if "<" in span or "*" in span or word in NOT_HERE or " " in span.strip():
            continue
        if word.split("/")[0] in FOLDERS and "/" in span:
            found = (ROOT / word).exists()
        elif word.endswith(SUFFIXES):
            found = Path(word).name in files
        else:
            continue
        if not found:
            missing.append(span)
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_modules_exist(name: str) -> None:
    text = (ROOT / name).read_text().replace('"rlher.plugins"', "").replace('"rlher.analysis.paper"', "")  # no modules
    assert [found for found in re.findall(r"\brlher(?:\.\w+)+", text) if not importable(found)] == []


def importable(dotted: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    try:
        if importlib.util.find_spec(dotted):
            return True
    except ModuleNotFoundError:
        pass
    module, _, attribute = dotted.rpartition(".")
    if module == "rlher":
        return attribute in rlher.__all__
    if not importlib.util.find_spec(module):
        return False
    return hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose(name))
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


def test_reference_has_every_key() -> None:
    from config_reference import reference

    page = reference()
    for command in COMMANDS:
        schema = COMMANDS[command].schema
        assert f"## rlher {command}\n" in page
        assert [key for key in keys_of(schema) if key != "env" and f"| `{key}` |" not in page] == []
    for algorithm in ALGORITHMS.values():
        assert [key for key in keys_of(algorithm.config, "algo.") if f"| `{key}` |" not in page] == []


def test_the_keys_that_may_change_when_a_run_is_resumed_are_listed() -> None:
    listed = (
        (ROOT / "docs/guide/resume.md").read_text().partition("## What may change")[2].partition("Any other change")[0]
    )
    keys = all_run_keys().items()
    settings = {name for name, key in keys if not key.rules.is_param} - {"recipe"}
    changeable = settings | {name for name, key in keys if key.rules.changeable_on_resume}
    assert set(re.findall(r"`([a-z_.]+)`", listed)) - {"config.yaml"} == changeable


def test_documented_keys_exist() -> None:
    sections = "algo|env|her|demos|engine|normalize|eval|checkpoint"
    known = set(keys_of(OptimizeConfig))
    known |= {key for algorithm in ALGORITHMS.values() for key in keys_of(algorithm.config, "algo.")}
    for name in NAMES:
        named = re.findall(rf"`((?:{sections})\.\w+(?:\.\w+)*)\b(?!/)(?<!json)", prose(name))
        named = [key for key in named if not re.search(r"kwargs\.", key)]
        assert [key for key in named if key not in known] == [], name


def test_tests_exist() -> None:
    """The page on robustness names a test for each promise."""
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/guide/robustness.md").read_text()))
    found = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert named <= found, named - found


@pytest.mark.slow
def test_a_wheel_holds_all_yaml_files_and_packages(tmp_path) -> None:
    copy = shutil.copytree(ROOT, tmp_path / "copy", symlinks=True, ignore=shutil.ignore_patterns(".*", "logs", "tests"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, copy]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if name.endswith((".py", ".yaml"))}
    folders = [ROOT / "rlher", *(ROOT / "rlher" / "conf").iterdir()]  # rglob does not follow links
    files = [file.relative_to(ROOT).as_posix() for each in folders for file in each.rglob("*.*")]
    assert names == {name for name in files if name.endswith((".py", ".yaml"))}
