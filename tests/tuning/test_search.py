from pathlib import Path

import grpc
import pytest

from gdn_keras.training import TrainingStopped
from gdn_keras.tuning.search import search_or_stop


def test_a_worker_says_that_its_chief_is_gone():
    class Worker:
        def search(self):
            raise grpc.RpcError

    with pytest.raises(TrainingStopped, match="the chief does not answer") as stop:
        search_or_stop(Worker(), Path())
    assert not stop.value.interrupted
