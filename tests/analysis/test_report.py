"""`rlher report`: content of the page, clips, differences of configuration, escaping, and damaged input."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from rlher.analysis import report
from rlher.config.trust import sign
from tests.analysis.conftest import HTML_IN_NAME, STUDY, notes_about, write_clip, write_log
from tests.conftest import Make
from tests.support.report_page import charts, legends, read, section


def test_the_page_has_the_tables_of_compare_and_the_curves_of_plot(rlher, two_agents: list[str]) -> None:
    compared = rlher("compare", *two_agents, "--format", "markdown").out
    done = rlher("report", *two_agents)
    assert (done.code, done.out, done.err) == (0, "logs/report.html\n", "")
    page = read()
    cells = [
        cell.strip() for line in compared.splitlines() if line.startswith("| Some") for cell in line.split("|")[1:-1]
    ]
    assert "1,000 (1 of 3 never)" in cells
    assert re.findall(r"<td>(.*?)</td>", section(page, "comparison")) == cells
    title, texts = charts(page)[0]
    assert title == "Some-v0"
    assert {"0", "1k", "environment steps", "0%", "100%", "evaluation success rate"} <= {*texts}
    assert legends(page) == [["good (3 seeds)", "bad (3 seeds)"]]


def test_the_page_has_no_external_resources(rlher, two_agents: list[str]) -> None:
    rlher("report", *two_agents)
    page = read()
    assert re.findall(r'\b(?:src|href)="(?!data:|#)', page) == []
    assert re.findall(r"@import|url\((?!#)", page) == []


def test_a_single_run_has_no_interval(rlher, make_run: Make) -> None:
    folder = make_run("sac/Some-v0_1")
    assert rlher("report", str(folder), "--output", "a/b.html", "--title", "Mine & yours").code == 0
    page = read("a/b.html")
    assert "<h1>Mine &amp; yours</h1>" in page
    assert "Some-v0, sac, future." in page, "the message about too few seeds"
    assert legends(page) == [["sac, future (1 seed)"]]
    assert "Each line is a single run." in page
    assert "differ" not in section(page, "configuration")


def test_each_environment_has_a_chart_and_small_ones_of_its_training(rlher, two_agents, make_run: Make) -> None:
    for seed in range(3):
        write_log(Path(f"logs/bad/{seed}"), object_moved=0.1 * seed)
    make_run("other", env={"id": "Other-v0"})
    assert rlher("report", *two_agents, "logs/other").code == 0
    both = ["mean_reward", "critic_loss", "object_moved"]
    titles = [title for title, _ in charts(read())]
    assert titles == ["Some-v0", *both, "Other-v0", "mean_reward"]
    assert '<th scope="col">Other-v0, other</th>' in section(read(), "configuration")


def test_text_from_files_is_escaped(rlher, make_run: Make) -> None:
    name = f"{HTML_IN_NAME}\x1b]0;PWN\x07\u202e\n\r\x7f"
    in_folder = name.replace("/", "∕")  # a folder name has no slash
    folder = make_run(
        in_folder,
        env={"id": name, "name": name},
        algo={"activation": name, name: 1},
        her={"goal_mix": [name, {name: 1}]},
    )
    (folder / "command.txt").write_text(f"rlher train {name}")
    (folder / "meta.json").write_text(json.dumps({name: name}))
    (folder / "result.json").write_text(json.dumps({"success_rate": 0.5, "status": name}))
    make_run(f"broken<b>{in_folder}").joinpath("evaluations.csv").unlink()
    shutil.copytree(STUDY, f"study{in_folder}")
    done = rlher("report", "logs", f"study{in_folder}", "--title", HTML_IN_NAME)
    assert done.code == 0, done.err
    assert "PWN" in done.err
    page = read()
    assert not [char for char in done.out + done.err + page if not char.isprintable() and char != "\n"]
    assert r"\x1b]0;PWN\x07" in page
    assert r"\u001b" not in page, "the labels of charts"
    assert page.count("hacked") > 10
    assert "<script>hacked" not in page
    assert "<img src=x" not in page
    assert "<b>" not in page
    assert "49" not in section(page, "runs"), "a template in a value is not rendered"
    assert page.count("<script") == 1


def test_clips_are_embedded_up_to_the_size_limits(rlher, make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("a")
    (folder / "clips").mkdir()
    write_clip(folder / "clips" / "best_100.mp4")
    write_clip(folder / "enjoy.gif")
    os.mkfifo(folder / "clips" / "pipe.mp4")
    (folder / "clips" / "other.txt").write_text("not a clip")
    done = rlher("report")
    clips = section(read(), "clips")
    assert len(notes_about("pipe.mp4", done.err)) == 1
    assert "logs/a/clips/pipe.mp4" in read(), "the note"
    assert re.findall(r'<(video|img) src="(data:.*?);', clips) == [
        ("img", "data:image/gif"),
        ("video", "data:video/mp4"),
    ]
    monkeypatch.setattr(report, "MAX_TOTAL_BYTES", (folder / "enjoy.gif").stat().st_size)
    assert notes_about("best_100.mp4", rlher("report").err)
    assert "enjoy.gif" in section(read(), "clips")
    assert "best_100.mp4" not in section(read(), "clips")


def test_versions_that_differ(rlher, two_agents: list[str]) -> None:
    for folder in Path("logs").glob("*/*"):
        torch = "2.9" if folder.parent.name == "bad" else "2.8"
        meta = {"python": "3.11.7", "packages": {"torch": torch, "numpy": "2.4"}, "git": {"commit": "0123456789abcdef"}}
        (folder / "meta.json").write_text(json.dumps(meta))
        (folder / "command.txt").write_text(f"rlher train seed={folder.name} 'a=<b>'\n")
        config = folder / "config.yaml"
        config.write_text(sign(config.read_text(), folder))
    rlher("report", *two_agents)
    shown, collapsed = section(read(), "configuration").split("<details>")
    assert re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', shown) == [
        ("her.n_sampled_goal", "<td>4</td><td>2</td>"),
        ("seed", "<td>0, 1, 2</td><td>0, 1, 2</td>"),
        ("meta.packages.torch", "<td>2.8</td><td>2.9</td>"),
    ]
    assert '<th scope="row">meta.git.commit</th><td>0123456789abcdef</td>' in collapsed
    runs = section(read(), "runs")
    assert runs.count("<code>rlher train seed=1 &#39;a=&lt;b&gt;&#39;</code>") == 2
    assert "logs/good/2: seed 2, 1,000 steps" in runs
    assert "<code>rlher report logs/good logs/bad</code>" in read()
