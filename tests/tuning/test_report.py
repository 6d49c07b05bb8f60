from gdn_keras.tuning import Candidate, Cost, TrialResult, baseline_answers
from gdn_keras.tuning.report import best_table


def result(trial_id, name, widths, parameters, operations, accuracy):
    candidate = Candidate(widths, 1.25, "max", 0.01)
    cost = Cost(parameters, 2 * parameters, operations)
    return TrialResult(trial_id, name, candidate, cost, 4, accuracy, {1.0: accuracy})


RESULTS = [
    result("2", "", (8, 16), 300, 1_000_000, 0.9),
    result("0", "default", (4, 8), 200, 3_000_000, 0.8),
    result("1", "large", (16, 16), 400, 2_000_000, 0.7),
]


def test_what_the_search_found_for_the_cost_of_a_baseline():
    best = "8-16, r 1.25, 90.00%, 300 parameters, 1.0 M multiply-adds."
    default, large = baseline_answers(RESULTS)
    assert default == (
        "`default` (4-8): 80.00%, 200 parameters, 3.0 M multiply-adds, rank 2 of 3. "
        f"No trial with as few parameters is better. Best with no more multiply-adds: {best}"
    )
    assert large == (
        "`large` (16-16): 70.00%, 400 parameters, 2.0 M multiply-adds, rank 3 of 3. "
        f"Best with no more parameters: {best} Best with no more multiply-adds: {best} "
        "Fewest parameters that are as good: 4-8, 200 parameters, 3.0 M multiply-adds."
    )


def test_the_table_marks_both_fronts():
    assert best_table(RESULTS).splitlines()[2:] == [
        "| 3 | 8-16 | 1.25 | max | 0.01 | 4 | 300 | 600 | 1.0 | 90.00 | pm |",
        "| 1 | 4-8 (default) | 1.25 | max | 0.01 | 4 | 200 | 400 | 3.0 | 80.00 | p |",
        "| 2 | 16-16 (large) | 1.25 | max | 0.01 | 4 | 400 | 800 | 2.0 | 70.00 |  |",
    ]
