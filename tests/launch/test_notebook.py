"""`notebook_launch` in a real notebook kernel."""

from __future__ import annotations

import textwrap

import pytest

from tests.waiting import PROGRAM_SECONDS

nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")

CELLS = (
    """
    import torch, torch.distributed as dist
    from ddpdoctor import notebook_launch
    torch.ones(300, 300) @ torch.ones(300, 300)  # threads of the kernel's own, which a fork would not survive
    FACTOR = 10

    def scaled(x):
        return FACTOR * x

    def job(start):
        dist.init_process_group("gloo")
        total = torch.tensor([float(start + dist.get_rank())])
        dist.all_reduce(total)
        print(f"rank {dist.get_rank()} is done", flush=True)
        dist.destroy_process_group()
        return scaled(total.item())

    print("result", notebook_launch(job, 1, nproc=2))
    """,
    """
    def sick():
        import os
        if os.environ["RANK"] == "1":
            raise KeyError("label 11")

    try:
        notebook_launch(sick, nproc=2)
    except Exception as error:
        print(type(error).__name__, error)
    """,
    """
    def nested():
        return notebook_launch(job, 1, nproc=2)

    try:
        notebook_launch(nested, nproc=1)
    except Exception as error:
        print(error)
    """,
)


@pytest.mark.filterwarnings("ignore")  # of jupyter's own, which change from release to release
def test_cells_run_on_ranks_and_their_errors_come_back() -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in CELLS])

    nbclient.NotebookClient(book, timeout=PROGRAM_SECONDS, kernel_name="python3").execute()

    healthy, sick, nested = (
        "".join(output["text"] for output in cell.outputs if "text" in output) for cell in book.cells
    )
    assert "result 30.0" in healthy
    assert "rank 0 is done" in healthy
    assert "rank 1 is done" in healthy
    assert "DDP401 rank-raised: rank 1 raised KeyError" in sick
    assert sick.index("DDP401") < sick.index("Traceback") < sick.rindex("KeyError: 'label 11'")
    assert "notebook_launch was called inside a rank" in nested
