import io

from gdn_keras.reporting import Reporter
from gdn_keras.training.fitting import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def train(stream, monkeypatch, epochs=2, steps=3, first=0):
    clock = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    progress = ProgressLine(epochs, steps, Reporter(stream), "val_accuracy")
    for epoch in range(first, epochs):
        progress.on_epoch_begin(epoch)
        for step in range(steps):
            progress.on_train_batch_end(step, {"loss": 1 / (step + 1)})
        progress.on_epoch_end(epoch, {"loss": 0.25, "val_accuracy": 0.5})
    return stream.getvalue()


def test_a_log_file_gets_one_line_an_epoch(monkeypatch):
    lines = train(io.StringIO(), monkeypatch).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("epoch 1/2 [==========          ]  50%  ETA 0:00:0")
    assert lines[1] == (
        "epoch 2/2 [====================] 100%  ETA 0:00:00  loss 0.2500  validation 50.00%"
    )


def test_a_terminal_sees_every_step(monkeypatch):
    text = train(Terminal(), monkeypatch)
    assert text.count("\n") == 2 and text.count("\r") == 6
    assert "epoch 1/2 [===                 ]  17%  ETA -:--:--  loss 1.0000" in text


def test_a_run_that_goes_on_counts_from_there(monkeypatch):
    text = train(io.StringIO(), monkeypatch, epochs=4, first=3)
    assert text.splitlines() == [
        "epoch 4/4 [====================] 100%  ETA 0:00:00  loss 0.2500  validation 50.00%"
    ]


def test_time_and_memory_are_told_after_a_few_steps(monkeypatch):
    monkeypatch.setattr("gdn_keras.training.fitting.peak_memory", lambda: 3 * 2**29)
    lines = train(io.StringIO(), monkeypatch, steps=60).splitlines()
    assert lines[0] == "The training will take about 0:01:51 and 1.5 GB of memory."
    assert len(lines) == 3
