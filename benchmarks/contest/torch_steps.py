"""The contestant that runs on PyTorch, as a function that computes one step."""

import os

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from contest.literal_torch import LiteralNetwork
from contest.tasks import Task

torch.set_num_threads(os.cpu_count() or 1)

VERSIONS = {"torch": torch.__version__}


def make_step(task: Task):
    """A function of the number of images that computes one step and waits for its end."""
    network = LiteralNetwork(task.widths, task.scales, task.truncation)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    network.train(task.mode == "training")

    def forward(images) -> None:
        with torch.inference_mode():
            network(images)

    def training(images) -> None:
        labels = torch.zeros(len(images), task.widths[-1])
        labels[:, 0] = 1
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(network(images), labels).backward()
        optimizer.step()

    def run(batch: int) -> None:
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(batch, 1, task.side, task.side, generator=generator)
        training(images) if task.mode == "training" else forward(images)

    run.flops = None
    return run
