"""Clips in the report."""

import os
import re

import pytest

from rlher.analysis.html import media
from tests.analysis.conftest import notes_about, write_clip
from tests.conftest import Make
from tests.support.report_page import read, section


def test_clips_are_embedded_up_to_the_size_limits(rlher, make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("a")
    (folder / "clips").mkdir()
    write_clip(folder / "clips" / "best_100.mp4")
    write_clip(folder / "enjoy.gif")
    (folder / "enjoy.mp4").write_bytes(b"\0" * 100)
    os.mkfifo(folder / "clips" / "pipe.mp4")
    (folder / "clips" / "other.txt").write_text("not a clip")
    done = rlher("report")
    clips = section(read(), "clips")
    assert len(notes_about("enjoy.mp4", done.err)) == len(notes_about("pipe.mp4", done.err)) == 1
    assert "logs/a/enjoy.mp4" in read(), "the note"
    assert re.findall(r'<(video|img) src="(data:.*?);', clips) == [
        ("img", "data:image/gif"),
        ("video", "data:video/mp4"),
    ]
    monkeypatch.setattr(media, "MAX_FILE_BYTES", 200)
    assert notes_about("best_100.mp4", rlher("report").err)
    monkeypatch.setattr(media, "MAX_FILE_BYTES", 10**6)
    monkeypatch.setattr(media, "MAX_TOTAL_BYTES", (folder / "enjoy.gif").stat().st_size)
    assert notes_about("best_100.mp4", rlher("report").err)
    assert "enjoy.gif" in section(read(), "clips")
    assert "best_100.mp4" not in section(read(), "clips")
