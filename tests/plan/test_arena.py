from hypothesis import given
from hypothesis import strategies as st

from codl.plan.arena import ALIGNMENT_FLOATS, Life, Meetings, assign_offsets
from codl.plan.residency import HOST


def is_over(life: Life, heir: Life, meetings: Meetings) -> bool:
    """Return whether ``heir`` may be written over ``life``: every use of it is known to be done by then.

    A device's own queue keeps the order of its launches. Of another device the
    host must have waited since its last use. What the host itself uses is done when it goes on.
    """
    for device, tick in life.last.items():
        if tick >= heir.first:
            return False
        if device == HOST:
            continue
        is_own_queue = heir.writers == {device}
        if not is_own_queue and not any(tick < met <= heir.first for met in meetings.get(device, ())):
            return False
    return True


def life(floats: int, first: int, last: int, *, device: int = 0) -> Life:
    return Life(floats=floats, first=first, writers={device}, last={device: last})


@st.composite
def lives(draw: st.DrawFn) -> dict[str, Life]:
    found = {}
    for index in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, 20))
        found[str(index)] = life(
            draw(st.integers(0, 5000)),
            first,
            first + draw(st.integers(0, 8)),
            device=draw(st.integers(0, 1)),
        )
    return found


@given(
    lives=lives(),
    meetings=st.dictionaries(st.integers(0, 1), st.lists(st.integers(0, 30), max_size=4).map(sorted)),
)
def test_tensors_alive_together_never_overlap(lives: dict[str, Life], meetings: dict[int, list[int]]) -> None:
    offsets, total = assign_offsets(lives, meetings)
    for name, one in lives.items():
        assert offsets[name] % ALIGNMENT_FLOATS == 0
        assert offsets[name] + one.floats <= total
        for other, two in lives.items():
            apart = (
                offsets[name] + one.floats <= offsets[other] or offsets[other] + two.floats <= offsets[name]
            )
            free = is_over(one, two, meetings) or is_over(two, one, meetings)
            assert name == other or apart or free


def search_offsets(lives: dict[str, Life], meetings: dict[int, list[int]]) -> dict[str, int]:
    """Return what `assign_offsets` finds, by looking at every pair."""
    offsets: dict[str, int] = {}
    placed: list[tuple[int, int, Life]] = []
    for name in sorted(lives, key=lambda key: (-lives[key].floats, lives[key].first)):
        one = lives[name]
        size = -(-max(1, one.floats) // ALIGNMENT_FLOATS) * ALIGNMENT_FLOATS
        offset = 0
        for begin, end, two in sorted(placed, key=lambda item: item[:2]):
            is_free = is_over(one, two, meetings) or is_over(two, one, meetings)
            if begin < offset + size and end > offset and not is_free:
                offset = end
        offsets[name] = offset
        placed.append((offset, offset + size, one))
    return offsets


@given(
    lives=lives(),
    meetings=st.dictionaries(st.integers(0, 1), st.lists(st.integers(0, 30), max_size=4).map(sorted)),
)
def test_offsets_are_those_of_a_search_over_all_pairs(
    lives: dict[str, Life], meetings: dict[int, list[int]]
) -> None:
    assert assign_offsets(lives, meetings)[0] == search_offsets(lives, meetings)


def test_long_chains_are_placed_in_two_places() -> None:
    chain = {str(index): life(100, index, index + 1) for index in range(20_000)}

    assert assign_offsets(chain, {})[1] == 2 * ALIGNMENT_FLOATS


def test_memory_of_a_finished_tensor_is_used_again() -> None:
    chain = {str(index): life(1000, index, index + 1) for index in range(10)}
    _, total = assign_offsets(chain, {})
    assert total <= 2 * 1024


def test_other_device_may_write_only_after_a_meeting() -> None:
    first, second = life(10, 0, 1), life(10, 5, 6, device=1)
    assert not is_over(first, second, {})
    assert not is_over(first, second, {0: [1]})
    assert is_over(first, second, {0: [3]})
    assert is_over(first, life(10, 5, 6), {})


def test_memory_that_the_host_used_is_free_when_it_goes_on() -> None:
    read = life(1000, 3, 5, device=HOST)

    assert is_over(read, life(1000, 6, 9), {})
    assert not is_over(read, life(1000, 5, 9), {})


def test_host_writes_over_memory_of_a_device_only_after_waiting_for_it() -> None:
    used, written = life(1000, 0, 4), life(1000, 6, 7, device=HOST)

    assert not is_over(used, written, {0: [4]})
    assert is_over(used, written, {0: [5]})
