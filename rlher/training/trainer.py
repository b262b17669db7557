"""One training run: learn, evaluate, write models, checkpoints and the result, however it ends."""

import json
from contextlib import closing, suppress
from pathlib import Path

from stable_baselines3.common.callbacks import BaseCallback

from rlher.core.errors import ReportedError, RunError, describe_error, first_line, os_error_reason
from rlher.core.signals import InterruptRequest
from rlher.core.writing import write_bytes, write_json
from rlher.run import model_file
from rlher.run.result import RunResult, ShouldStop, Status
from rlher.run.run_folder import RESULT_FILE, RunFolder
from rlher.training.checkpointer import Checkpointer
from rlher.training.diagnostics import DiagnosticsCallback
from rlher.training.evaluator import Evaluator, TrainingStopped
from rlher.training.learning_from_demonstrations import pretrain
from rlher.training.loggers import TrackerWriter, make_logger
from rlher.training.messages import interruption_text, saved_models_text
from rlher.training.preparation import TrainingSetup
from rlher.training.progress import TrainingProgress

LOG_INTERVAL = 4
"""Episodes between two rows of ``progress.csv``, as in Stable-Baselines3."""


class Trainer:
    """Trains one run: learns, evaluates, writes its models, checkpoints and result.

    :param run: the run, whose folder the caller has locked.
    :param setup: result of :func:`~rlher.training.preparation.prepare`, which the caller closes.
    :param checkpoint: what the run continues from, None if it starts from step 0.
    :param should_stop: see :func:`~rlher.training.train_run.train_run`.
    :raises UserError: the checkpoint cannot be loaded, or the tracker cannot be built.
    :raises RunError: an environment failed while the actions of a checkpoint were repeated.
    """

    def __init__(
        self,
        run: RunFolder,
        setup: TrainingSetup,
        checkpoint: Path | None = None,
        should_stop: ShouldStop | None = None,
    ) -> None:
        self.run = run
        self.config = run.config
        self.model = setup.model
        self.result = RunResult()
        self.interrupt_request = InterruptRequest()
        self.evaluator = Evaluator(run, setup.model, setup.start_time, should_stop)
        self.checkpointer = Checkpointer(run, setup.model, self.evaluator)
        self.user_callbacks = setup.callbacks
        self.is_resumed = checkpoint is not None
        if checkpoint is not None:
            self.checkpointer.restore(checkpoint)
        # After `restore`, only code that preserves the random number generators may run; the tracker preserves them.
        self.tracker = TrackerWriter(run)
        self._has_final_evaluation = should_stop is None

    def train(self) -> RunResult:
        """Train to the end of the run and return the result.

        However the run ends, its models and its result are written first.

        :raises KeyboardInterrupt: Ctrl-C or SIGTERM ended the run; it has a checkpoint, unless there are none.
        :raises RunError: the run failed.
        :raises UserError: a file that it reads cannot be used.
        """
        result = self.result
        with closing(self.evaluator), self.interrupt_request.catch_signals():
            try:
                self._restore_results()
                self._learn()
                self.interrupt_request.stop_at_once()
                if self._has_final_evaluation:
                    result.final, result.best = self.evaluator.evaluate_final()
                result.status = Status.FINISHED
            except TrainingStopped:
                result.status = Status.STOPPED
            except KeyboardInterrupt:
                result.status = Status.INTERRUPTED
                raise KeyboardInterrupt(interruption_text(self.run)) from None
            except BaseException as error:
                result.error = first_line(error) if isinstance(error, ReportedError) else describe_error(error)
                if isinstance(error, RunError | SystemExit | OSError):  # a callback may call sys.exit
                    raise self._run_error() from error
                raise
            finally:
                self._write_result()
        return result

    def _restore_results(self) -> None:
        """Restore the results in the folder from the checkpoint; without a checkpoint, delete them."""
        self.evaluator.write_files()
        for path in [*self.run.folder.glob("models/*"), *self.run.folder.glob("clips/*")]:
            if path.stem.isdecimal() and int(path.stem) > self.model.num_timesteps:
                path.unlink()
        if not self.is_resumed:
            self.run.model_path("last").unlink(missing_ok=True)
        (self.run.folder / RESULT_FILE).unlink(missing_ok=True)

    def _learn(self) -> None:
        """Call SB3's ``learn`` with all callbacks, and write the last model, also if that ends with an exception."""
        config = self.config
        logger = make_logger(self.run.folder, config.tensorboard, self.checkpointer.log_rows, self.model.num_timesteps)
        self.model.set_logger(logger)
        logger.output_formats.append(self.tracker)

        progress_bar = TrainingProgress(self.model, config.total_timesteps, self.evaluator, config.progress)
        with closing(logger), progress_bar as progress:
            try:
                if config.demos.pretrain_updates and not self.is_resumed:
                    pretrain(self.model, config, progress, self.interrupt_request)  # type: ignore[arg-type]
                    self.evaluator.start()
                self.model.learn(
                    config.total_timesteps - self.model.num_timesteps,
                    callback=[
                        TrainerCallback(self, progress),
                        DiagnosticsCallback(),
                        *self.user_callbacks,
                    ],
                    log_interval=max(LOG_INTERVAL, config.n_envs),  # at most one row per step
                    reset_num_timesteps=False,
                )
            except Exception:
                with suppress(Exception, KeyboardInterrupt):  # the first fault is reported
                    self.evaluator.finish_running()
                raise
            finally:
                # If training diverged, torch raises errors of many kinds. The error of `to_bytes` replaces them.
                write_bytes(self.run.model_path("last"), model_file.to_bytes(self.model))

    def _run_error(self) -> RunError:
        """Return the exception for the error in the result; its message says which models the run has."""
        return RunError(f"{self.result.error}; {saved_models_text(self.run)}.", self.run.folder)

    def _write_result(self) -> None:
        """Write ``result.json`` at the very end, so a run that is killed in its final evaluation has none.

        The result is also passed to the tracker, and printed with ``json=true``.
        """
        result = self.result
        result.timesteps = self.model.num_timesteps
        result.evaluations = self.evaluator.rows
        result.wall_seconds = round(self.evaluator.elapsed, 1)
        try:
            write_json(self.run.folder / RESULT_FILE, result.to_dict())
        except OSError as error:
            result.status = Status.FAILED
            result.error = result.error or f"{RESULT_FILE} was not written ({os_error_reason(error)})"
            raise self._run_error() from error
        finally:
            self.tracker.finish(result)
            if self.config.json:
                print(json.dumps({"run": str(self.run), **result.to_dict()}), flush=True)


class TrainerCallback(BaseCallback):
    """Calls the parts of a run in their order: checkpoints, Ctrl-C, evaluations, progress."""

    def __init__(self, trainer: Trainer, progress: TrainingProgress) -> None:
        super().__init__()
        self._checkpointer, self._evaluator = trainer.checkpointer, trainer.evaluator
        self._interrupt_request, self._progress = trainer.interrupt_request, progress

    def _on_rollout_start(self) -> None:  # with engine.overlap, the updates of the last step are still due
        self._checkpointer.save_if_due()
        if self._interrupt_request.requested:
            self._evaluator.finish_running()
            self._checkpointer.ensure_saved()
            raise KeyboardInterrupt
        self._evaluator.start_if_due()  # after the checkpoint, which waits for evaluations in progress
        self._evaluator.record_finished()

    def _on_step(self) -> bool:
        self._progress.update()
        return True

    def _on_training_end(self) -> None:
        self._evaluator.start_if_due()
        self._evaluator.finish_running()
        self._checkpointer.ensure_saved()
