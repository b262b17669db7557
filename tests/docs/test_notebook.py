"""The notebook of the first five minutes is valid, shows results without errors, and runs."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.documents import ROOT

FILE = ROOT / "docs/first_five_minutes.ipynb"
SHORTER = {
    '"FetchReach-v4")\nrun': '"FetchReach-v4", total_timesteps=1_000, eval={"final_episodes": 10})\nrun',
    'total_timesteps=4_000, eval={"freq": 400}': 'total_timesteps=400, eval={"freq": 400, "final_episodes": 5}',
    "episodes=50": "episodes=5",
    "learn(300)": "learn(120)",
}
CODE = [cell for cell in nbformat.read(FILE, as_version=4).cells if cell.cell_type == "code"]


def shown(cells: list) -> str:
    outputs = [output for cell in cells for output in cell.outputs]
    return "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)


def test_it_is_valid_and_shows_results() -> None:
    nbformat.validate(nbformat.read(FILE, as_version=4))
    assert all(cell.outputs for cell in CODE)
    assert not [output for cell in CODE for output in cell.outputs if output.output_type == "error"]
    assert "Traceback" not in shown(CODE)
    assert FILE.stat().st_size < 1_000_000


def test_its_links_lead_to_pages() -> None:
    links = re.findall(r"\]\(([\w/]+\.md)\)", FILE.read_text())
    assert [link for link in links if not (FILE.parent / link).exists()] == []


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(FILE, as_version=4)
    for cell in notebook.cells:
        cell.source = re.sub("|".join(map(re.escape, SHORTER)), lambda found: SHORTER[found[0]], cell.source)
    NotebookClient(notebook, timeout=1500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "finished, success 100.0%" in shown(code)
    assert (tmp_path / "reach.gif").exists()
