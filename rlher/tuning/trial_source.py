"""Supply the trials of a study as jobs: ask Optuna for trials, retry lost trials, and fill the progress table.

Several commands may share a study. Each command runs its own trials, and retries the trials of commands that died,
whose heartbeat stopped. A retry has the same parameters as the lost trial.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rlher.evaluation.metrics import TARGET_PERCENT
from rlher.jobs.job_source import Job, JobSource, ProgressRow
from rlher.tuning.reruns import RERUN_SEED
from rlher.tuning.scoring import format_steps, has_score, score_of
from rlher.tuning.search_space import format_value
from rlher.tuning.study_storage import MAX_RETRY
from rlher.tuning.trial_runner import TrialRunner
from rlher.tuning.trials import counted_trials, failure_reason, rank_trials

SHOWN_TRIALS = 5
"""Maximum number of completed trials in the progress table."""

ADOPTION_HEARTBEATS = 4
"""Number of heartbeats after which a running trial gets one from a command that does not run it."""


class TrialSource(JobSource):
    """The trials of a study that this command runs. The table shows the best and the running trials of all commands.

    :param total: number of trials at which the study is complete.
    """

    columns = ("trial", "state", "success", f"{TARGET_PERCENT}% at", "return", "parameters")

    def __init__(self, study: Study, runner: TrialRunner, total: int, title: str) -> None:
        self.title = title
        self.total = total
        self.study = study
        self._runner = runner
        self._running: dict[int, Trial] = {}
        """Started trials whose end is not recorded yet, by number."""
        self._storage: Any = study._storage
        self._next_heartbeat = 0.0
        self._times_seen: Counter[int] = Counter()
        """How many heartbeats of this command each running trial has been seen at, by its id in the storage."""

    def rows(self) -> list[ProgressRow]:
        """Return the rows of the table: best trials, running trials, and all other trials, which are not shown."""
        trials = counted_trials(self.study)
        shown = {trial.number: trial for trial in rank_trials(self.study, self._runner.search.space)[:SHOWN_TRIALS]}
        shown |= {trial.number: trial for trial in trials if trial.state is TrialState.RUNNING}
        in_order = [*shown.values(), *(trial for trial in trials if trial.number not in shown)]
        return [_row(trial, trial.number in shown) for trial in in_order]

    def next_jobs(self, max_jobs: int) -> Iterator[Job]:
        """Yield trials until the study has ``total`` trials."""
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + self._runner.search.config.heartbeat
            for trial in self._running.values():
                self._storage.record_heartbeat(trial._trial_id)
            fail_stale_trials(self.study)
            self._adopt_trials_without_heartbeat()
        for _ in range(min(max_jobs, count_unstarted(self.study, self.total))):
            trial = self.study.ask(self._runner.search.space)
            self._storage.record_heartbeat(trial._trial_id)
            self._running[trial.number] = trial
            log = self._runner.search.folder / "workers" / f"{self._runner.study_name}-{trial.number}.log"
            yield Job(trial, partial(self._runner.run_and_record, trial._trial_id), log)

    def _adopt_trials_without_heartbeat(self) -> None:
        """Record a heartbeat of each trial that has been running for :data:`ADOPTION_HEARTBEATS`.

        If a command dies between ``ask`` and its first heartbeat, its trial has none, and Optuna never calls it stale.
        With one it becomes stale, unless its command lives. By then Optuna has failed the stale trials that have one.
        """
        for trial in self.study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            self._times_seen[trial._trial_id] += 1
            if self._times_seen[trial._trial_id] == ADOPTION_HEARTBEATS:
                self._storage.record_heartbeat(trial._trial_id)

    def on_end(self, trial: Trial, error: BaseException | None) -> None:
        """Retry a trial if its worker died. Otherwise the worker has recorded how the trial ended."""
        if error:
            fail_and_retry(self.study, trial)
        del self._running[trial.number]

    def on_interrupt(self) -> None:
        """Queue the running trials again."""
        for trial in self._running.values():
            fail_and_retry(self.study, trial, max_retry=None)

    def is_complete(self) -> bool:
        """Return whether every trial is finished, by this command or by others that joined it."""
        trials = counted_trials(self.study)
        return len(trials) >= self.total and all(trial.state.is_finished() for trial in trials)


def count_unstarted(study: Study, total: int) -> int:
    """Return how many trials of the total have not been started."""
    trials = counted_trials(study)
    waiting = sum(trial.state is TrialState.WAITING for trial in trials)
    return waiting + max(total - len(trials), 0)


def _row(trial: FrozenTrial, in_table: bool) -> ProgressRow:
    """Return a trial's row of the progress table. The score is "–" until the trial is complete."""
    name = f"trial {trial.number}"
    state = trial.state.name.lower()
    done = trial.state.is_finished()
    reported = list(trial.intermediate_values.values())
    cells = (f"{reported[-1]:.0%} now" if reported else "–", "–", "–")
    if has_score(trial):
        score = score_of(trial)
        cells = (f"{score.success:.1%}", format_steps(score.steps, score.share_at_target), f"{score.mean_reward:.2f}")
    values = {key.rpartition(".")[2]: value for key, value in trial.params.items()}
    if RERUN_SEED in trial.user_attrs:
        values[RERUN_SEED] = trial.user_attrs[RERUN_SEED]
    params = " ".join(f"{name}={format_value(value)}" for name, value in values.items())
    reason = failure_reason(trial) if trial.state is TrialState.FAIL else ""
    return ProgressRow(name, state, (*cells, params), in_table, is_printed=done, progress=float(done), reason=reason)


# ---------------------------------------------------------------------------------------- the life of a trial


def fail_and_retry(study: Study, trial: Trial | FrozenTrial, max_retry: int | None = MAX_RETRY) -> None:
    """Record a running trial as failed. Queue it again unless it was already retried ``max_retry`` times."""
    with contextlib.suppress(UpdateFinishedTrialError, ValueError):  # another process recorded its end
        study.tell(trial.number, state=TrialState.FAIL)
        RetryHeartbeatStaleTrialCallback(max_retry)(study, study.get_trials()[trial.number])
