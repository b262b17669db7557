"""`rlher compare`: intervals, probabilities of improvement, and the formats of the tables."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlher.analysis import comparison, plotting
from rlher.analysis.grouping import load_groups
from rlher.api import compare
from rlher.config.command_configs import PlotConfig, RunSelectionConfig
from rlher.core import stats
from tests.analysis.conftest import HTML_IN_NAME
from tests.conftest import Make


def test_two_folders(rlher, two_agents: list[str]) -> None:
    done = rlher("compare", *two_agents, "--format", "markdown")
    assert (done.code, done.err) == (0, "")
    rows = [line.split("|")[1:-1] for line in done.out.splitlines() if line.startswith("| Some")]
    good, bad, improvement, _, profile = [[cell.strip() for cell in row] for row in rows]
    assert good == ["Some-v0", "good", "3", "100.0% [98.7%, 100.0%]", "100 / 100 / 100", "500", "900", "0.3", "1,000"]
    # 40% never reaches 50%, 50% and 60% do: the median is the last evaluation of 50%.
    assert bad[4:] == ["40 / 50 / 60", "1,000 (1 of 3 never)", "never", "–", "1,000"]
    assert improvement == ["Some-v0", "good", "bad", "1.00 [0.50, 1.00]"]
    assert profile == ["Some-v0", "bad", "100%", "100%", "33%", "0%", "0%", "0%"]


def test_fewer_than_three_seeds_have_no_interval(rlher, make_run: Make) -> None:
    make_run("one/1", 0)
    make_run("two/1", 1, 0.05)
    done = rlher("compare", "logs/one", "logs/two")
    assert done.code == 0
    assert "Some-v0, one" in done.err
    assert "[" not in done.out, "an interval"
    assert done.out.count("Some-v0") == 2, "only the summary"


@pytest.fixture
def two_environments(make_run: Make) -> list[str]:
    """Agent `both` on two environments, final success rates .9, 1, 1 and .4, .5, .6; agent `one` on one of them."""
    for seed in range(3):
        make_run(f"both/a{seed}", seed, 0.09 + 0.01 * seed)
        make_run(f"both/b{seed}", seed, 0.04 + 0.01 * seed, env={"id": "Other-v0"})
        make_run(f"one/{seed}", seed, 0.1)
    return ["logs/both", "logs/one"]


def test_success_over_environments(rlher, two_environments: list[str]) -> None:
    (row,) = comparison.over_environments(load_groups(RunSelectionConfig(two_environments))).numbers.to_dict("records")
    assert (row["group"], row["environments"], row["runs"]) == ("both", "Some-v0, Other-v0", 6)
    assert row["iqm"] == pytest.approx(np.mean([0.5, 0.6, 0.9, 1.0])), "of the middle half of six runs"
    assert row["gap"] == pytest.approx(1 - np.mean([0.9, 1, 1, 0.4, 0.5, 0.6]))
    assert row["low"] < row["iqm"] < row["high"]
    low, high = stats.wilson(440, 600)
    assert row["gap_low"] <= 1 - high < row["gap"] < 1 - low <= row["gap_high"]
    assert f"{row['gap']:.1%} [" in rlher("compare", *two_environments).out


def test_csv_has_the_numbers(rlher, two_agents: list[str]) -> None:
    first, second, third = rlher("compare", *two_agents, "--format", "csv").out.split("\n\n")
    summary = pd.read_csv(io.StringIO(first)).set_index("group")
    assert summary.success_rate.tolist() == pytest.approx([1, 0.5])
    assert summary.loc["bad", ["steps_to_50", "never_50", "steps_to_90", "never_90"]].tolist() == [1000, 1, np.inf, 3]
    assert pd.read_csv(io.StringIO(second)).loc[0, ["A", "B", "probability"]].tolist() == ["good", "bad", 1]
    assert pd.read_csv(io.StringIO(third)).iloc[1, 2:].tolist() == pytest.approx([1, 1, 1 / 3, 0, 0, 0])


def test_a_latex_table_has_environments_by_groups(rlher, two_environments: list[str], make_run: Make) -> None:
    make_run("both/c", env={"id": "Only_v0"})
    first = rlher("compare", *two_environments, "--format", "latex").out.split(r"\end{table}")[0]
    header, rows = latex_rows(first)
    assert header == ["env", "both", "one"]
    assert {row[0]: row[2] == "–" for row in rows} == {"Some-v0": False, "Other-v0": True, r"Only\_v0": True}
    assert re.fullmatch(r"[\d.]+ \[[\d.]+, [\d.]+\], n = 3", rows[0][1]), "with its interval and number of seeds"
    assert rows[2][1] == "100.0, n = 1"
    assert r"\label{tab:summary}" in first
    assert r"mean over 1–3 seeds; in brackets: 95 \% interval" in first


@pytest.mark.parametrize(
    ("seeds", "cell"), [(1, "40.0"), (2, "45.0"), (3, "50.0 [40.0, 60.0]"), (4, "55.0 [40.0, 70.0]")]
)
def test_a_latex_table_has_the_interval_of_three_seeds(make_run: Make, seeds: int, cell: str) -> None:
    text = compare([make_run(f"{seed}", seed, 0.04 + 0.01 * seed) for seed in range(seeds)], format="latex")
    assert latex_rows(text)[1] == [["Some-v0", cell]]
    mean, end = ("interquartile mean" if seeds > 3 else ": mean"), ("}" if seeds < 3 else "; in brackets: 95 ")
    assert f"{mean} over {seeds} seed{'s' if seeds > 1 else ''}{end}" in text


def latex_rows(table: str) -> tuple[list[str], list[list[str]]]:
    """Return the cells of the header and of the rows of the first tabular."""
    header, *rows = [line.removesuffix(r" \\").split(" & ") for line in table.splitlines() if line.endswith(r"\\")]
    return header, rows


def test_the_suffix_of_a_file_chooses_the_format(rlher, two_agents: list[str]) -> None:
    done = rlher("compare", *two_agents, "--output", "new/a.tex,a.CSV,a.md,a.txt")
    assert done.out.split() == ["new/a.tex", "a.CSV", "a.md", "a.txt"]
    for name, format in (("new/a.tex", "latex"), ("a.CSV", "csv"), ("a.md", "markdown"), ("a.txt", "text")):
        assert Path(name).read_text() == rlher("compare", *two_agents, "--format", format).out
    assert rlher("compare", *two_agents, "--output", "a.tex", "--format", "markdown").code == 0
    assert Path("a.tex").read_text() == Path("a.md").read_text()
    assert Path("new/a.tex").read_text().startswith(compare(two_agents, format="latex"))


def test_names_are_plain_text(rlher, make_run: Make) -> None:
    """They are no formulas, and LaTeX does not run them."""
    names = {"$k$": r"\$k\$", r"$\input{x}$": r"\$\textbackslash input\{x\}\$"}
    for number, name in enumerate(names):
        make_run(f"{number}", env={"id": "Some-v0", "name": name})
    words = [f"{name}=logs/{number}" for number, name in enumerate(names)]
    header, rows = latex_rows(rlher("compare", *words, "--format", "latex").out)
    assert header == ["env", *names.values()]
    assert [row[0] for row in rows] == [*names.values()]
    figure = plotting.draw_runs(PlotConfig(runs=words))
    (legend,) = figure.legends
    assert not any(text.get_parse_math() for text in (*legend.get_texts(), *(panel.title for panel in figure.axes)))


def test_markdown_escapes_what_a_run_is_called(rlher, two_agents: list[str], make_run: Make) -> None:
    make_run("strange", env={"id": f"{HTML_IN_NAME}[here](javascript:run)"})
    markdown = rlher("compare", *two_agents, "logs/strange", "--format", "markdown").out
    assert "hacked" in markdown
    assert "<" not in markdown
    assert "](" not in markdown
