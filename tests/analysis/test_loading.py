"""`rlher plot`, `rlher compare` and `rlher report` on run folders of every condition."""

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from rlher.analysis import aggregation, comparison, loading, plotting
from tests.conftest import Make


@pytest.fixture
def three_seeds(make_run: Make) -> list[Path]:
    return [make_run(f"sac/Some-v0_{seed + 1}", seed, 0.08 + 0.01 * seed) for seed in range(3)]


def lines_of(figure: Any) -> list[list[str]]:
    """Labels of each panel's legend, and so of its thick lines."""
    return [[text.get_text() for text in panel.get_legend().get_texts()] for panel in figure.axes]


def grouped(tmp_path: Path, *by: str) -> dict[str, int]:
    found, _ = loading.read([], str(tmp_path / "logs"))
    return {group.label: len(group.curves) for group in loading.group(found, by)[0]}


# -------------------------------------------------------------------------------------------- grouping


def test_seeds_are_averaged_and_anything_else_splits_a_group(make_run: Make, three_seeds, tmp_path: Path) -> None:
    assert grouped(tmp_path) == {"sac, future": 3}
    make_run("sac/Some-v0_9", 5, algo={"learning_rate": 0.1})
    assert grouped(tmp_path) == {"sac, future, learning_rate=0.001": 3, "sac, future, learning_rate=0.1": 1}
    assert grouped(tmp_path, "algo") == {"sac": 4}
    assert grouped(tmp_path, "her.n_sampled_goal") == {"n_sampled_goal=4": 4}


def test_runs_older_than_the_choice_of_an_update_step_had_sb3s(make_run: Make, tmp_path: Path) -> None:
    for number, engine in enumerate([{}, {"engine": {"name": "rlher"}}, {"engine": {"name": "sb3"}}]):
        make_run(f"sac/Some-v0_{number}", number, **engine)
    assert grouped(tmp_path) == {"sac, future, engine=rlher": 1, "sac, future, engine=sb3": 2}


def test_pooling_is_said_aloud(make_run: Make, tmp_path: Path) -> None:
    make_run("a", 0)
    make_run("b", 1, algo={"learning_rate": 0.1})
    found, _ = loading.read([], str(tmp_path / "logs"))
    (note,) = loading.group(found, ["algo"])[1]
    assert note == "Some-v0, sac: pools runs that differ in algo.learning_rate"


def test_keys_that_go_together_are_told_by_the_one_that_was_typed(make_run: Make, tmp_path: Path) -> None:
    for bits in (15, 30):
        folder = make_run(f"bits{bits}", env={"max_episode_steps": bits, "n_bits": bits})
        (folder / "command.txt").write_text(f"rlher train env.n_bits={bits}\n")
    assert set(grouped(tmp_path)) == {"sac, future, n_bits=15", "sac, future, n_bits=30"}


def test_every_key_that_tells_runs_apart_splits_them_and_is_told(make_run: Make, tmp_path: Path) -> None:
    keys = [("learning_rate", 0.1), ("gamma", 0.9), ("tau", 0.5), ("batch_size", 8)]
    for index in range(2 ** len(keys)):
        chosen = {key: value for bit, (key, value) in enumerate(keys) if index >> bit & 1}
        make_run(f"run{index}", index, algo=chosen)
    groups = grouped(tmp_path)
    assert len(groups) == 16
    assert set(groups.values()) == {1}
    assert "sac, future, batch_size=8, gamma=0.9, learning_rate=0.1, tau=0.5" in groups


def test_two_keys_of_one_name_are_told_apart(make_run: Make, tmp_path: Path) -> None:
    for index, engine in enumerate(("rlher", "sb3")):
        for n_steps in (1, 3):
            make_run(
                f"{engine}{n_steps}", index, engine={"name": engine}, algo={"n_steps": 3}, her={"n_steps": n_steps}
            )
    assert set(grouped(tmp_path)) == {
        f"sac, future, engine={engine}, n_steps={n_steps}" for engine in ("rlher", "sb3") for n_steps in (1, 3)
    }
    make_run("other", 0, engine={"name": "rlher"}, algo={"n_steps": 5}, her={"n_steps": 1})
    assert "sac, future, algo.n_steps=5, engine=rlher, her.n_steps=1" in grouped(tmp_path)


def test_a_config_group_that_was_typed_names_what_it_sets(make_run: Make, tmp_path: Path) -> None:
    make_run("ours")
    folder = make_run("theirs", her={"relabel_done": "keep", "keep_goal_independent_reward": False})
    (folder / "command.txt").write_text("rlher train algo=sac her=sb3\n")
    assert set(grouped(tmp_path)) == {"sac, future, her=default", "sac, future, her=sb3"}


def test_length_and_evaluation_are_no_other_experiment(make_run: Make, tmp_path: Path) -> None:
    make_run("a", 0)
    make_run("b", 1, freq=70, rows=5, eval={"freq": 70}, threads=2)
    assert list(grouped(tmp_path).values()) == [2]


def test_a_key_of_a_later_version_is_at_its_default_in_older_runs(make_run: Make, tmp_path: Path) -> None:
    make_run("old", 0)
    make_run("new", 1, her={"n_steps": 1, "goal_mix": {}})
    assert grouped(tmp_path) == {"sac, future": 2}


def test_a_repeated_run_is_no_second_sample(make_run: Make, three_seeds, tmp_path: Path) -> None:
    make_run("again", 1, 0.09, rows=4)
    found, _ = loading.read([], str(tmp_path / "logs"))
    groups, notes = loading.group(found)
    assert [len(group.curves) for group in groups] == [3]
    assert notes == [f"{tmp_path}/logs/again: left out, it repeats {three_seeds[1]}, seed and all"]


def test_runs_are_read_in_the_order_people_count(make_run: Make, tmp_path: Path) -> None:
    for number in (10, 9, 1):
        make_run(f"sac/Some-v0_{number}", number)
    found, _ = loading.read([], str(tmp_path / "logs"))
    assert [curve.folder.name for curve in found] == ["Some-v0_1", "Some-v0_9", "Some-v0_10"]


def test_a_tuners_trials_are_read_where_asked_for(make_run: Make, three_seeds, tmp_path: Path) -> None:
    make_run("optuna/study/trials/0/sac/Some-v0_1", algo={"learning_rate": 0.1})
    assert grouped(tmp_path) == {"sac, future": 3}
    assert len(loading.read([str(tmp_path / "logs" / "optuna" / "study")], "logs")[0]) == 1


def test_the_grid_ends_where_the_shortest_run_does(make_run: Make, tmp_path: Path) -> None:
    make_run("a", 0, 0.1, freq=100, rows=10)
    make_run("b", 1, 0.1, freq=150, rows=3)
    found, _ = loading.read([], str(tmp_path / "logs"))
    seeds = [(curve.rows.timesteps.to_numpy(), curve.rows.success_rate.to_numpy()) for curve in found]
    grid, values = aggregation.common_grid(seeds)
    assert grid.tolist() == [150, 200, 300, 400, 450]
    assert values[0].tolist() == pytest.approx([0.15, 0.2, 0.3, 0.4, 0.45])
    assert values[1].tolist() == pytest.approx([0.1, 0.1 + 0.1 / 3, 0.2, 0.2 + 0.2 / 3, 0.3])


# -------------------------------------------------------------------------------------------- plot


def test_a_picture_has_a_line_a_group_and_a_thin_one_a_seed(make_run: Make, three_seeds, tmp_path: Path) -> None:
    make_run("tqc/Some-v0_1", 0, 0.05, algo={"name": "tqc"})
    make_run("tqc/Other-v0_1", 0, 0.05, algo={"name": "tqc"}, env={"id": "Other-v0"})
    found, _ = loading.read([], str(tmp_path / "logs"))
    figure = Figure()
    lines = plotting.averages(loading.group(found)[0], "timesteps", "success_rate")
    plotting.draw(figure, lines, "timesteps", "success_rate")
    assert lines_of(figure) == [["sac, future (3 seeds)", "tqc, future (1 seed)"], ["tqc, future (1 seed)"]]
    assert [len(panel.lines) for panel in figure.axes] == [3 + 1 + 1, 1]
    assert [len(panel.collections) for panel in figure.axes] == [1, 0], "a band where there are seeds to resample"
    drawn = plotting.numbers(lines)
    three = drawn[drawn.seeds == 3]
    assert three.iqm.tolist() == pytest.approx((0.09 * np.arange(1, 11)).tolist())
    assert (three.low <= three.iqm).all()
    assert (three.iqm <= three.high).all()
    assert drawn[drawn.seeds == 1].low.isna().all()


@pytest.mark.parametrize("x", ["steps", "wall", "updates"])
@pytest.mark.parametrize("y", ["success_rate", "mean_reward"])
def test_every_axis(rlher, three_seeds, x: str, y: str) -> None:
    done = rlher("plot", "--x", x, "--y", y, "--output", "a.png", "--csv", "a.csv")
    assert done.code == 0, done.err
    assert done.out.split() == ["a.png", "a.csv"]
    drawn = pd.read_csv("a.csv")
    assert drawn.x.max() == {"steps": 1000, "wall": 20, "updates": 2000}[x]


def test_pictures_are_not_blank(rlher, three_seeds) -> None:
    from matplotlib import image

    assert rlher("plot").code == 0
    pixels = image.imread("logs/success_rate.png")[..., :3]
    blue = np.all(np.isclose(pixels, (0, 0x72 / 255, 0xB2 / 255), atol=0.02), axis=-1)
    columns = np.flatnonzero(blue.any(axis=0))
    assert np.ptp(columns) > 0.5 * pixels.shape[1], "a line from side to side"
    assert np.all(pixels[[0, -1]] == 1), "labels are not cut"
    assert np.all(pixels[:, [0, -1]] == 1)
    assert Path("logs/success_rate.pdf").read_bytes().startswith(b"%PDF")


def test_a_window_where_there_is_a_display(rlher, monkeypatch: pytest.MonkeyPatch, three_seeds) -> None:
    from matplotlib import pyplot

    shown: list[int] = []
    monkeypatch.setattr(plotting, "has_display", lambda: True)
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.gcf().axes[0].lines)))
    assert rlher("plot", "--show", "--output", "a.png").code == 0
    assert shown == [3 + 1]
    assert Path("a.png").stat().st_size


def test_a_run_without_the_column_is_no_seed_of_its_line(rlher, three_seeds: list[Path]) -> None:
    for folder, column in zip(three_seeds, ("", "crash_rate", "crash_rate"), strict=True):
        frame = pd.read_csv(folder / "evaluations.csv")
        frame[column or "other"] = 0.1 if folder != three_seeds[1] else float("nan")
        frame.to_csv(folder / "evaluations.csv", index=False)
    assert rlher("plot", "--y", "crash_rate", "--output", "a.png", "--csv", "a.csv").code == 0
    assert set(pd.read_csv("a.csv").seeds) == {1}
    done = rlher("plot", str(three_seeds[1]), "--y", "crash_rate", "--output", "b.png")
    assert done.code == 2
    assert "no run has a number in both its columns timesteps and crash_rate" in done.err


def test_a_single_evaluation_is_a_point(rlher, make_run: Make) -> None:
    make_run("short", rows=1)
    assert rlher("plot", "--output", "a.png").code == 0


def test_many_rows_take_seconds_and_are_averaged(rlher, make_run: Make) -> None:
    for seed in range(5):
        rows = 10_000 - 7 * seed
        noise = np.random.default_rng(seed).uniform(-0.2, 0.2, rows)
        frame = pd.read_csv(make_run(f"long{seed}", seed, 0.0001, rows=rows) / "evaluations.csv")
        frame["success_rate"] = (0.2 + 0.6 * frame.timesteps / 1e6 + noise).clip(0, 1)
        frame.to_csv(f"logs/long{seed}/evaluations.csv", index=False)
    before = time.process_time()
    done = rlher("plot", "--csv", "a.csv")
    assert time.process_time() - before < 10
    assert "rlher: Some-v0, sac, future: a point is the mean of 20 evaluations" in done.err
    drawn = pd.read_csv("a.csv")
    assert len(drawn) <= 500
    assert np.abs(drawn.iqm - (0.2 + 0.6 * drawn.x / 1e6)).max() < 0.06, "the noise is averaged away"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("plot", "nowhere"), "there is no folder nowhere."),
        (("plot", "--y", "succes_rate"), "did you mean 'success_rate'"),
        (("plot", "--by", "her.n_sampled_gaol"), "did you mean 'her.n_sampled_goal'"),
        (("plot", "--output", "a.jpeg"), ".png, .pdf, .svg"),
        (("plot", "--x", "hours"), "steps, wall, updates"),
        (("plot", "--show"), "needs a display"),
        (("plot", "--output", "logs/sac/Some-v0_1/config.yaml/a.png"), "cannot write"),
        (("compare", "--format", "html"), "markdown, csv, latex"),
        (("evaluate", "a", "b"), "takes one run, not 2"),
    ],
)
def test_mistakes_get_a_sentence(rlher, monkeypatch, three_seeds, words: tuple[str, ...], sentence: str) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    done = rlher(*words)
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err


# ------------------------------------------------------------------------------------- hostile folders

HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "empty config": ({"config.yaml": b""}, "not one of rlher's"),
    "foreign config": ({"config.yaml": b"services: [web]\n"}, "not one of rlher's"),
    "list as config": ({"config.yaml": b"[1, 2]"}, "not one of rlher's"),
    "binary config": ({"config.yaml": bytes(range(256))}, "damaged"),
    "bad YAML": ({"config.yaml": b"a: [1"}, "while parsing"),
    "a tag that runs code": ({"config.yaml": b"!!python/object/apply:os.system [exit]"}, "could not determine"),
    "just begun": ({}, "not evaluated yet"),
    "header alone": ({"evaluations.csv": b"timesteps,success_rate\n"}, "not evaluated yet"),
    "empty rows": ({"evaluations.csv": b""}, "empty or damaged"),
    "rates in per cent": ({"evaluations.csv": b"timesteps,success_rate\n100,55\n"}, "not from 0 to 1"),
    "rates that are none": ({"evaluations.csv": b"timesteps,success_rate\n100,nan\n"}, "not evaluated yet"),
    "a config in itself": (
        {"config.yaml": b"{algo: &a {b: *a}, env: {}, her: {}}", "evaluations.csv": b"timesteps,success_rate\n1,1\n"},
        "or itself",
    ),
    "foreign rows": ({"evaluations.csv": b"a,b\n1,2\n"}, "columns timesteps and success_rate"),
    "a number beyond all numbers": ({"evaluations.csv": b"timesteps,success_rate\n" + b"9" * 400}, "empty or damaged"),
    "binary rows": ({"evaluations.csv": bytes(range(256))}, "empty or damaged"),
    "a dry run": ({"config.yaml": b"{algo: {}, env: {}, her: {}, dry_run: true}"}, "a dry run"),
}


def test_hostile_folders_are_told_and_the_rest_drawn(rlher, make_run: Make, three_seeds) -> None:
    for number, (files, _) in enumerate(HOSTILE.values()):
        folder = make_run(f"hostile-{number}", 7)
        (folder / "evaluations.csv").unlink()
        for file, content in files.items():
            (folder / file).write_bytes(content)
    for words in (("plot", "--output", "a.png", "--csv", "a.csv"), ("compare",), ("report", "--output", "a.html")):
        done = rlher(*words)
        assert done.code == 0, done.err
        for number, (name, (_, sentence)) in enumerate(HOSTILE.items()):
            told = [line for line in done.err.splitlines() if f"hostile-{number}" in line.replace(":", "/").split("/")]
            assert len(told) == 1, (words, name, done.err)
            assert sentence in told[0], (words, name)
    assert set(pd.read_csv("a.csv").seeds) == {3}
    assert "sac, future (3 seeds)" in Path("a.html").read_text()


@pytest.mark.parametrize("text", ["[" * 5000, '{"success_rate": {}, "episodes": "many"}', '{"episodes": NaN}', "3"])
def test_an_odd_result_is_passed_over_for_the_last_evaluation(rlher, make_run: Make, text: str) -> None:
    folder = make_run("odd")
    (folder / "result.json").unlink()
    without = rlher("compare")
    (folder / "result.json").write_text(text)
    assert rlher("compare") == without
    assert without.code == 0


def test_a_run_being_written_is_drawn_as_far_as_it_is(rlher, make_run: Make) -> None:
    folder = make_run("running", rows=4)
    (folder / "result.json").write_text('{"succ')
    with (folder / "evaluations.csv").open("a") as file:
        file.write("500,0.")  # a line that is half there
    assert rlher("plot", "--output", "a.png", "--csv", "a.csv").code == 0
    assert pd.read_csv("a.csv").x.tolist() == [100, 200, 300, 400, 500]


def test_no_run_at_all(rlher, tmp_path: Path) -> None:
    assert "there is no folder logs. `rlher train` makes one." in rlher("plot").err
    (tmp_path / "logs").mkdir()
    done = rlher("compare")
    assert done.code == 2
    assert "no run with an evaluation under logs" in done.err


# -------------------------------------------------------------------------------------------- compare


def test_compare_two_folders(rlher, make_run: Make) -> None:
    for seed in range(3):
        make_run(f"good/{seed}", seed, 0.1)
        make_run(f"bad/{seed}", seed, 0.04 + 0.01 * seed)
    done = rlher("compare", "logs/good", "logs/bad")
    assert done.code == 0, done.err
    assert "| Some-v0 | good | 3 | 100.0 % [98.7 %, 100.0 %] | 100 / 100 / 100 | – | 500 | 900 | 1,000 |" in done.out
    # 40 % never gets to one half, 50 % and 60 % do: the median is at 50 %'s last evaluation.
    assert "| 40 / 50 / 60 | – | 1,000 (1 of 3 never) | never (3 of 3 never) | 1,000 |" in done.out
    assert "| Some-v0 | good | bad | 1.00 [1.00, 1.00] |" in done.out
    assert "| Some-v0 | bad | 100% | 100% | 33% | 0% | 0% | 0% |" in done.out
    assert done.err == ""


def test_few_seeds_make_no_claim(rlher, make_run: Make) -> None:
    make_run("one/1", 0)
    make_run("two/1", 1, 0.05)
    done = rlher("compare", "logs/one", "logs/two")
    assert "no claim can be made about Some-v0, one; Some-v0, two" in done.err
    assert "[" not in done.out, "an interval"
    assert "Probability" not in done.out


def test_runs_named_one_by_one_are_grouped(rlher, three_seeds) -> None:
    done = rlher("compare", *map(str, three_seeds))
    assert done.code == 0, done.err
    assert "| Some-v0 | sac, future | 3 |" in done.out


def test_a_folder_without_a_run_is_told_and_the_rest_compared(rlher, make_run: Make, three_seeds) -> None:
    Path("logs/empty").mkdir()
    done = rlher("compare", "logs/empty", "logs/sac")
    assert done.code == 0
    assert "rlher: logs/empty: no run in it" in done.err
    assert "| Some-v0 | sac | 3 |" in done.out
    done = rlher("compare", "logs/empty", "logs/empty/")
    assert done.code == 2
    assert "no run with an evaluation under logs/empty" in done.err


def test_a_folder_that_pools_is_told_and_a_copy_is_no_seed(rlher, make_run: Make, three_seeds) -> None:
    make_run("sac/other", 3, algo={"learning_rate": 0.1})
    make_run("sac/copy", 2)
    make_run("tqc/one", 0)
    done = rlher("compare", "logs/sac", "logs/tqc")
    assert "Some-v0, sac: pools runs that differ in algo.learning_rate" in done.err
    assert "left out, it repeats" in done.err
    assert "| Some-v0 | sac | 4 |" in done.out


def test_csv_has_the_numbers(rlher, make_run: Make) -> None:
    for seed in range(3):
        make_run(f"good/{seed}", seed, 0.1)
        make_run(f"bad/{seed}", seed, 0.04 + 0.01 * seed)
    first, second, third = rlher("compare", "logs/good", "logs/bad", "--format", "csv").out.split("\n\n")
    summary = pd.read_csv(io.StringIO(first)).set_index("agent")
    assert summary.success_rate.tolist() == pytest.approx([1, 0.5])
    assert summary.loc["bad", ["steps_to_50", "never_50", "steps_to_90", "never_90"]].tolist() == [1000, 1, np.inf, 3]
    assert pd.read_csv(io.StringIO(second)).probability.tolist() == [1]
    assert pd.read_csv(io.StringIO(third)).iloc[1, 2:].tolist() == pytest.approx([1, 1, 1 / 3, 0, 0, 0])


@pytest.mark.parametrize(("form", "sign"), [("csv", "env,agent,seeds"), ("latex", r"\begin{tabular}")])
def test_other_forms(rlher, three_seeds, form: str, sign: str) -> None:
    done = rlher("compare", "--format", form)
    assert done.code == 0, done.err
    assert sign in done.out


def test_an_unfinished_run_counts_with_its_last_evaluation(make_run: Make) -> None:
    folder = make_run("running", rows=4)
    (folder / "result.json").unlink()
    (curve,) = loading.read([str(folder)], "logs")[0]
    assert comparison.finals_of(loading.Group("Some-v0", "", [curve])).tolist() == [0.4]
