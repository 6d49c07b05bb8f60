"""What a run needs to know of its task."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import keras

from gdn_keras.reporting import Reporter
from gdn_keras.training.recipe import TrainingRecipe
from gdn_keras.training.run_folder import Section


class Task:
    """A model, its data, an evaluation and a report: the parts that `Run` puts together.

    A new kind of training is a subclass that fills them in.

    Attributes:
        recipe: How to train.
        steps: Steps in an epoch.
        title: Heading of the report.
        description: What is trained on what, for the first line.
        results_file: Name of the JSON file of the results.
        score: The logged value whose highest epoch is kept in best.keras, if any.
        files: Names of the task's own files in the run folder, and what they hold.
    """

    recipe: TrainingRecipe
    steps: int
    title: str
    description: str
    results_file: str
    score: str | None = None
    files: ClassVar[Mapping[str, str]]

    def settings(self) -> dict[str, Any]:
        """Everything that the result depends on, as JSON would give it back."""
        return self.recipe.as_dict()

    def network(self) -> keras.Model:
        """The model in the shape of its training."""
        raise NotImplementedError  # each task has its own

    def loss(self) -> dict[str, Any]:
        """Arguments of `compile`, besides the optimizer; none for a model with its own loss."""
        return {}

    def batches(self, first_epoch: int) -> Any:
        """An endless `tf.data.Dataset` for `fit`, which depends on the seed and the epoch only."""
        raise NotImplementedError  # each task has its own

    def validation(self) -> Any:
        """A `tf.data.Dataset` to validate each epoch on, if any."""
        return None

    def finish(self, model: keras.Model) -> keras.Model:
        """The trained model in the shape of its use, uncompiled."""
        raise NotImplementedError  # each task has its own

    def evaluate(self, model: keras.Model, reporter: Reporter) -> dict[str, Any]:
        """The results as JSON has them, or with arrays of NumPy in place of lists."""
        raise NotImplementedError  # each task has its own

    def tables(self, results: dict[str, Any]) -> dict[str, str]:
        """Further files with results: their content by name."""
        return {}

    def summary(self, results: dict[str, Any]) -> str:
        """The results in one sentence."""
        raise NotImplementedError  # each task has its own

    def sections(
        self, results: dict[str, Any], model: keras.Model, others: dict[str, dict[str, Any]]
    ) -> Iterable[Section]:
        """The report after its first sentence; `others` are results to show beside these."""
        raise NotImplementedError  # each task has its own

    def export_options(self) -> dict[str, Any]:
        """What `export_saved_model` has to know besides the model."""
        return {}
