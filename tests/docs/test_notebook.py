"""The notebook of the first five minutes is valid, shows results without errors, and runs."""

import os
import re
import shlex
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.documents import ROOT

FILE = ROOT / "docs/first_five_minutes.ipynb"
CODE = [cell for cell in nbformat.read(FILE, as_version=4).cells if cell.cell_type == "code"]


def printed(cells: list) -> str:
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


def test_it_is_valid_and_shows_results() -> None:
    nbformat.validate(nbformat.read(FILE, as_version=4))
    assert all(cell.outputs for cell in CODE)
    assert not [output for cell in CODE for output in cell.outputs if output.output_type == "error"]
    assert "Traceback" not in printed(CODE)
    assert FILE.stat().st_size < 1_000_000


def test_its_links_lead_to_pages() -> None:
    links = re.findall(r"\]\(([\w/]+\.md)\)", FILE.read_text())
    assert [link for link in links if not (FILE.parent / link).exists()] == []


@pytest.mark.parametrize("line", re.findall(r"^rlher (.*)", "\n".join(cell.source for cell in CODE), re.MULTILINE))
def test_its_commands_are_valid(rlher, line: str) -> None:
    words = [re.sub(r"^(\w+=\w+),\w+$", r"\1", word) for word in shlex.split(line) if word != "-m"]
    done = rlher(*words) if words[0] in ("list", "--version") else rlher(*words, "--cfg", "job")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    notebook = nbformat.read(FILE, as_version=4)
    NotebookClient(notebook, timeout=1500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "success 100" in printed(code)
    assert (tmp_path / "reach.gif").exists()
    assert (tmp_path / "bits.png").exists()
