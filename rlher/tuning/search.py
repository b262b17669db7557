"""A search: what is tuned from which baseline, and where its results are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlher.config.training import RunConfig
from rlher.config.tuning import OptimizeConfig
from rlher.tuning.search_space import SearchSpace, apply_params, baseline_params


@dataclass(frozen=True)
class Search:
    """A search. It is pickled and sent to workers.

    :param config: config of `rlher optimize`. Its environment is probed, see
        :func:`rlher.training.preparation.prepare`.
    :param space: the parameters of a trial.
    :param folder: the study's folder, after which the study is named. It holds the output of trials, and the database
        unless ``storage`` names another.
    :param command_line: command line of the search, for the run folders.
    """

    config: OptimizeConfig
    space: SearchSpace
    folder: Path
    command_line: str

    @property
    def baseline_params(self) -> dict[str, Any]:
        """The parameters of trial 0, with which candidates are compared."""
        return baseline_params(self.space, self.config.baseline)

    def config_with(self, params: Mapping[str, Any]) -> RunConfig:
        """Return the baseline's config with a trial's parameters.

        :raises UserError: the schema refuses a key or value.
        """
        return apply_params(self.config.baseline, params)
