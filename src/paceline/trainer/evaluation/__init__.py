"""Evaluation and prediction: all trainers together, each record once.

::

    evaluation      tasks are leased, read and worked off
    metric_states   a metric as states of tasks
    predictions     where predictions go
"""

from paceline.trainer.evaluation.evaluation import Evaluator, Work, evaluating
from paceline.trainer.evaluation.metric_states import Metric, MetricStates
from paceline.trainer.evaluation.predictions import open_predictions
