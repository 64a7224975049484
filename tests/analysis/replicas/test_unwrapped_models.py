"""Models beside the wrapped one: which are meant to be equal, and whose copy is a fault."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.analysis.replicas.divergences.results import CopyUsed
from ddpdoctor.analysis.replicas.unwrapped_models import differing_copies
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track, UnwrappedSeen, UnwrappedUsed


def track(
    digests: Sequence[str], uses: Sequence[tuple[str, int]] = (), *, writes: bool = False, name: str = "ema"
) -> Track:
    """A rank whose copy had the fingerprint `digests[i]` after step `i`, and was used (how, at which step)."""
    return Track(
        method="linear",
        every=1,
        unwrapped=tuple(
            UnwrappedSeen(name=name, key=(step + 1, 0, 0), step=step, digest=digest)
            for step, digest in enumerate(digests)
        ),
        unwrapped_uses=tuple(UnwrappedUsed(name=name, how=how, step=step) for how, step in uses),
        unwrapped_writes={name: Frame(file="train.py", line=9, function="main")} if writes else {},
    )


def test_the_rank_that_updates_its_copy_alone_is_named_with_its_line() -> None:
    every_step = [("forward", step) for step in range(3)]
    (found,) = differing_copies({
        0: track(["a", "b", "c"], every_step, writes=True), 1: track(["a", "a", "a"], every_step),
    })  # fmt: skip

    assert (found.step, found.ranks, found.moved, found.still, found.tied) == (1, (0,), (0,), (1,), False)
    assert (found.used, found.used_on, found.writes) == (CopyUsed.DIFFERENT, (0, 1), True)
    assert [*found.lines] == [0]


def test_the_one_rank_that_does_not_update_its_copy_is_the_minority() -> None:
    tracks = {rank: track(["a", "b", "c"]) for rank in (0, 1)} | {2: track(["a", "a", "a"], [("forward", 2)])}
    (found,) = differing_copies(tracks)

    assert (found.ranks, found.moved, found.still) == ((2,), (0, 1), (2,))
    assert (found.used, found.used_on) == (CopyUsed.STALE, (2,))


def test_a_checkpoint_that_all_ranks_put_together_and_one_writes_is_no_use_of_an_old_copy() -> None:
    """`ckpt = {"ema": ema.state_dict()}; save_on_master(ckpt)`."""
    tracks = {0: track(["a", "b", "c"], [("state_dict", 2)]), 1: track(["a", "a", "a"], [("state_dict", 2)])}
    (found,) = differing_copies(tracks)

    assert (found.used, found.used_on) == (CopyUsed.UNKNOWN, ())


def test_a_copy_that_only_its_updating_rank_calls_is_no_fault() -> None:
    assert not [*differing_copies({0: track(["a", "b"], [("forward", 2)]), 1: track(["a", "a"])})]


def test_a_copy_that_nobody_has_used_yet_is_found() -> None:
    (found,) = differing_copies({0: track(["a", "b"], [("state_dict", 1)]), 1: track(["a", "a"], [("forward", 0)])})

    assert found.used is CopyUsed.UNKNOWN


def test_what_is_not_equal_at_first_or_not_on_every_rank_is_not_compared() -> None:
    assert not [*differing_copies({0: track(["a", "b"]), 1: track(["c", "d"])})]
    assert not [*differing_copies({0: track(["a", "b"]), 1: track([])})]
    assert not [*differing_copies({0: track(["a", "b"]), 1: track(["a", "c"], name="teacher")})]
    assert not [*differing_copies({0: track(["a", "b"])})]


def test_an_average_that_was_never_equal_and_that_one_rank_alone_updates_is_found_where_the_others_call_it() -> None:
    """The average is copied from the weights, as timm does it, before DistributedDataParallel makes them equal."""
    evaluated = [("forward", 6)]
    updated = track("abcdefg", evaluated, writes=True)
    (found,) = differing_copies({0: updated, 1: track("x" * 7, evaluated), 2: track("y" * 7, evaluated)})

    assert (found.step, found.ranks, found.moved, found.still) == (5, (0,), (0,), (1, 2))
    assert (found.used, found.used_on, found.was_equal, [*found.lines]) == (CopyUsed.STALE, (1, 2), False, [0])


def test_the_one_rank_that_never_updates_its_own_average_is_named() -> None:
    evaluated = [("forward", 5)]
    moving = {0: track("abcdef", evaluated), 2: track("ghijkl", evaluated)}
    (found,) = differing_copies(moving | {1: track("x" * 6, evaluated)})

    assert (found.ranks, found.moved, found.still, found.used_on) == ((1,), (0, 2), (1,), (1,))


def test_an_average_that_one_rank_began_with_other_weights_is_found() -> None:
    """Another seed on rank 2, and a copy of the weights before DistributedDataParallel makes them equal."""
    evaluated = [("forward", 5)]
    alike = {rank: track("abcdef", evaluated) for rank in (0, 1)}
    (found,) = differing_copies(alike | {2: track("uvwxyz", evaluated, writes=True)})

    assert (found.step, found.ranks, found.moved, found.still) == (0, (2,), (0, 1, 2), ())
    assert (found.used, found.used_on, found.was_equal, [*found.lines]) == (CopyUsed.DIFFERENT, (0, 1, 2), False, [2])

    assert not [*differing_copies(alike | {2: track("uvwxyz")})]  # rank 2 has no use for it
    assert not [*differing_copies(alike | {2: track("ubwxyz", evaluated)})]
    assert not [*differing_copies(alike | {2: track("uvwxyz", evaluated), 3: track("ghijkl", evaluated)})]


def test_models_that_each_rank_makes_for_itself_are_no_fault() -> None:
    """All updated, none updated, updated a few times, or called only where it is updated."""
    called = [("forward", 5)]
    fixed = track("xxxxxx", called)
    assert not [*differing_copies({0: track("abcdef", called), 1: track("uvwxyz", called)})]
    assert not [*differing_copies({0: track("aaaaaa", called), 1: fixed})]
    assert not [*differing_copies({0: track("abcdee", called), 1: fixed})]
    assert not [*differing_copies({0: track("abcdef", called), 1: track("xxxxxx")})]
    assert not [*differing_copies({0: track("abcdef"), 1: fixed, 2: track("pppppq", called)})]


def test_an_opponent_that_one_rank_replaces_now_and_then_is_no_average() -> None:
    """Self-play: each rank plays against an opponent of its own, and rank 1 has not replaced it yet."""
    called = [("forward", step) for step in range(12)]
    assert not [*differing_copies({0: track("aabbccddeeff", called), 1: track("x" * 12, called)})]


def test_a_copy_of_weights_that_differ_already_is_no_cause() -> None:
    tracks = {0: track(["a", "b", "c"], writes=True), 1: track(["a", "b", "d"], writes=True)}

    assert [found.step for found in differing_copies(tracks, until=(3, 0, 0))] == [2]
    assert not [*differing_copies(tracks, until=(2, 0, 0))]


def test_equal_copies_are_silent() -> None:
    assert not [*differing_copies({rank: track(["a", "b", "b"], [("forward", 1)]) for rank in range(3)})]
