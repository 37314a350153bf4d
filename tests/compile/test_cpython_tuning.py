"""Room for frames: however deep the caller is, a loop of calls maps no memory."""

import resource
import warnings

import pytest

with warnings.catch_warnings():  # Inductor warns of its own deprecations while it loads
    warnings.simplefilter("ignore")
    from torch_spyre.inductor.cpython_tuning import with_room_for_frames

CALLS, DEPTHS = 200, range(160)


def called(number):
    return number


def page_faults_of_calls():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(CALLS):
        called(number)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def at_depth(depth, run):
    return run() if depth == 0 else at_depth(depth - 1, run)


def test_a_loop_of_calls_maps_no_memory_at_any_depth():
    with_room = with_room_for_frames(page_faults_of_calls)
    assert max(at_depth(depth, with_room) for depth in DEPTHS) < CALLS / 2


def test_arguments_results_errors_and_names_pass_through():
    @with_room_for_frames
    def divided(number, *, by):
        """A function."""
        return number / by

    assert divided(6, by=3) == 2 and divided.__name__ == "divided" and divided.__doc__ == "A function."
    with pytest.raises(ZeroDivisionError):
        divided(1, by=0)
