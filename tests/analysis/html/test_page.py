"""`rlher report`: content of the page, escaping, and damaged input."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from rlher.analysis import plotting
from rlher.analysis.aggregation import aggregate
from tests.analysis.conftest import HTML_IN_NAME, STUDY, load_group, notes_about, write_log
from tests.conftest import Make
from tests.support.report_page import all_charts, chart_data, read, section


def test_the_page_has_the_numbers_of_plot_and_compare(rlher, two_agents: list[str], tmp_path: Path) -> None:
    compared = rlher("compare", *two_agents, "--format", "markdown").out
    done = rlher("report", *two_agents)
    assert (done.code, done.out, done.err) == (0, "logs/report.html\n", "")
    page = read()
    cells = [
        cell.strip() for line in compared.splitlines() if line.startswith("| Some") for cell in line.split("|")[1:-1]
    ]
    assert "1,000 (1 of 3 never)" in cells
    assert re.findall(r"<td>(.*?)</td>", section(page, "comparison")) == cells
    success, profile = chart_data(page)
    assert [line["label"] for line in success["lines"]] == ["good (3 seeds)", "bad (3 seeds)"]
    drawn = plotting.to_frame([aggregate(load_group(tmp_path / "logs" / "good"), "timesteps", "success_rate")])
    for name, column in (("x", "x"), ("y", "iqm"), ("low", "low"), ("high", "high")):
        assert success["lines"][0][name] == pytest.approx(drawn[column].tolist(), rel=1e-5)
    assert [len(x) for x, _ in success["lines"][0]["seeds"]] == [10, 10, 10]
    bad = profile["lines"][1]
    assert bad["x"] == pytest.approx([0, 0.4, 0.4, 0.5, 0.5, 0.6, 0.6, 1, 1])
    assert bad["y"] == pytest.approx([1, 1, 2 / 3, 2 / 3, 1 / 3, 1 / 3, 0, 0, 0], abs=1e-6)


def test_the_page_has_no_external_resources(rlher, two_agents: list[str]) -> None:
    rlher("report", *two_agents)
    page = read()
    assert re.findall(r'\b(?:src|href)="(?!data:|#)', page) == []
    assert re.findall(r"@import|url\((?!#)", page) == []
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    assert policy
    assert policy[1].startswith("default-src &#39;none&#39;;")
    assert "unsafe" not in policy[1]


def test_a_single_run_has_no_interval(rlher, make_run: Make) -> None:
    folder = make_run("sac/Some-v0_1")
    assert rlher("report", str(folder), "--output", "a/b.html", "--title", "Mine & yours").code == 0
    page = read("a/b.html")
    assert "<h1>Mine &amp; yours</h1>" in page
    assert "Some-v0, sac, future." in section(page, "comparison"), "the message about too few seeds"
    (chart,) = chart_data(page)
    (line,) = chart["lines"]
    assert (len(line["x"]), line["low"], line["seeds"]) == (10, [], [])
    assert "differ" not in section(page, "configuration")


def test_long_labels_wrap_in_tables(rlher, make_run: Make) -> None:
    long = f"a{'-long' * 20}-name"
    make_run(f"{long}/0"), make_run("short/0", her={"n_sampled_goal": 2})
    rlher("report", f"logs/{long}", "logs/short")
    assert f'<td class="long">{long}</td>' in section(read(), "comparison")
    assert "<td>short</td>" in section(read(), "comparison")
    assert f'<th scope="col" class="long">{long}</th>' in section(read(), "configuration")


def test_by_makes_the_groups(rlher, two_agents: list[str]) -> None:
    rlher("report", "--by", "her.n_sampled_goal")
    (success, _) = chart_data(read())
    assert {line["label"] for line in success["lines"]} == {"n_sampled_goal=4 (3 seeds)", "n_sampled_goal=2 (3 seeds)"}


def test_one_chart_per_environment(rlher, make_run: Make) -> None:
    make_run("a")
    make_run("b", env={"id": "Other-v0"})
    rlher("report")
    assert [chart["title"] for chart in chart_data(read())] == ["Some-v0", "Other-v0"]
    assert '<th scope="col">Other-v0, sac, future</th>' in section(read(), "configuration")


def test_training_curves_stand_below_the_success_rate(rlher, two_agents: list[str], make_run: Make) -> None:
    for seed in range(3):
        write_log(Path(f"logs/bad/{seed}"), object_moved=0.1 * seed)
    make_run("other", env={"id": "Other-v0"})
    assert rlher("report", *two_agents, "logs/other").code == 0
    small = [chart for chart in all_charts(read()) if "legend" in chart]
    titles = [[chart["title"] for chart in small if chart["legend"] == index] for index in (0, 1)]
    both = ["mean_reward", "critic_loss", "steps_per_second", "object_moved"]
    assert titles == [both, ["mean_reward", "steps_per_second"]]
    assert [[line["index"] for line in chart["lines"]] for chart in small[:4]] == [[0, 1], [1], [0, 1], [1]]
    returns, loss, speed, moved = small[:4]
    assert returns["lines"][0]["y"] == pytest.approx(list(range(-9, 1)))
    assert loss["lines"][0]["y"][:2] == pytest.approx([2, 1])
    assert set(speed["lines"][0]["y"]) == {50}
    assert [set(y) for _, y in moved["lines"][0]["seeds"]] == [{0}, {0.1}, {0.2}]
    assert [chart["percent"] for chart in small[:4]] == ["", "", "", "y"]


def test_text_from_files_is_escaped(rlher, make_run: Make) -> None:
    in_folder = HTML_IN_NAME.replace("/", "∕")  # a folder name has no slash
    folder = make_run(
        in_folder,
        env={"id": HTML_IN_NAME},
        algo={"activation": HTML_IN_NAME, HTML_IN_NAME: 1},
        her={"goal_mix": [HTML_IN_NAME]},
    )
    (folder / "command.txt").write_text(HTML_IN_NAME)
    (folder / "meta.json").write_text(json.dumps({HTML_IN_NAME: HTML_IN_NAME}))
    (folder / "result.json").write_text(json.dumps({"success_rate": 0.5, "status": HTML_IN_NAME}))
    make_run("broken<b>").joinpath("evaluations.csv").unlink()
    shutil.copytree(STUDY, f"study{in_folder}")
    done = rlher("report", "logs", f"study{in_folder}", "--title", HTML_IN_NAME)
    assert done.code == 0, done.err
    page = read()
    assert page.count("hacked") > 10
    assert "<script>hacked" not in page
    assert "<img src=x" not in page
    assert "<b>" not in page
    assert "49" not in section(page, "runs"), "a template in a value is not rendered"
    assert page.count("<script") == 2


def test_invalid_numbers_are_skipped(rlher, make_run: Make, two_agents: list[str]) -> None:
    (make_run("nan") / "result.json").write_text('{"success_rate": NaN, "episodes": "many"}')
    (make_run("seven") / "result.json").write_text('{"success_rate": 7}')
    (make_run("percent") / "evaluations.csv").write_text("timesteps,success_rate\n100,55\n")
    (make_run("text") / "evaluations.csv").write_text("timesteps,success_rate\n100,high\n")
    holes = make_run("holes/0", 9)
    (holes / "result.json").unlink()
    (holes / "evaluations.csv").write_text("timesteps,success_rate,crash_rate\n100,0.5,inf\n200,nan,-inf\n300,0.25,\n")
    done = rlher("report", *two_agents, *(f"logs/{name}" for name in ("nan", "seven", "percent", "text", "holes")))
    assert done.code == 0, done.err
    for name, file in (("seven", "result.json"), ("percent", "evaluations.csv"), ("text", "evaluations.csv")):
        (note,) = notes_about(name, done.err)
        assert file in note
    assert [line["y"] for line in chart_data(read())[0]["lines"] if line["label"] == "holes (1 seed)"] == [[0.5, 0.25]]
    assert "<td>25.0%</td>" in section(read(), "comparison")
    assert "NaN" not in json.dumps(chart_data(read()))


def test_a_folder_name_that_is_not_utf8(rlher, make_run: Make) -> None:
    folder = make_run("a")
    os.rename(folder, os.fsencode(folder) + b"\xff")
    assert rlher("report").code == 0
    assert r"logs/a\udcff: seed 0" in read()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--output", "a.pdf"), "a.pdf"),
        (("--output", "logs/a/config.yaml/a.html"), "logs/a/config.yaml/a.html"),
        (("nowhere",), "nowhere"),
        (("--by", "her.n_sampled_gaol"), "'her.n_sampled_goal'"),
    ],
)
def test_a_mistake_is_named(rlher, make_run: Make, words: tuple[str, ...], named: str) -> None:
    make_run("a")
    done = rlher("report", *words)
    assert done.code == 2
    assert named in done.err
    assert "Traceback" not in done.err


def test_the_template_is_in_the_package() -> None:
    root = Path(__file__).parents[3]
    project = (root / "pyproject.toml").read_text()
    assert '"rlher.analysis.html" = ["page.*"]' in project
    folders = {".".join(path.parent.relative_to(root).parts) for path in (root / "rlher").rglob("__init__.py")}
    named = set(re.findall(r'"([\w.]+)"', re.search(r"\npackages = \[(.*?)\]", project, re.DOTALL)[1]))  # type: ignore[index]
    assert folders <= named
