import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.ledger import Ledger, LedgerError
from edgepipe.scheduler.fates import Fate, Reason


def test_every_fate_has_its_column() -> None:
    ledger = Ledger(["front"])
    for sequence in range(6):
        ledger.captured("front", sequence)
    ledger.fate("front", 0, Fate.COMPLETED)
    ledger.fate("front", 1, Fate.LATE)
    ledger.fate("front", 2, Fate.DROPPED, Reason.DOOMED)
    ledger.fate("front", 3, Fate.DROPPED, Reason.DOOMED)
    ledger.fate("front", 4, Fate.FAILED, Reason.BAD_OUTPUT)
    account = ledger.account("front")
    assert (account.captured, account.completed, account.late) == (6, 1, 1)
    assert account.dropped == {"doomed": 2}
    assert account.failed == {"bad_output": 1}
    assert account.in_flight == 1
    assert account.balanced


def test_warm_up_is_kept_apart() -> None:
    ledger = Ledger(["front"])
    ledger.captured("front", 0, warm_up=True)
    ledger.captured("front", 1)
    assert ledger.account("front").captured == 1
    assert ledger.account("front", warm_up=True).captured == 1


def test_a_frame_enters_once() -> None:
    ledger = Ledger(["front"])
    ledger.captured("front", 0)
    with pytest.raises(LedgerError, match="captured twice"):
        ledger.captured("front", 0)


def test_a_frame_leaves_once() -> None:
    ledger = Ledger(["front"])
    ledger.captured("front", 0)
    ledger.fate("front", 0, Fate.COMPLETED)
    with pytest.raises(LedgerError, match="not in flight"):
        ledger.fate("front", 0, Fate.COMPLETED)


@pytest.mark.parametrize(
    ("fate", "reason"),
    [(Fate.DROPPED, None), (Fate.FAILED, None), (Fate.COMPLETED, Reason.STALE)],
)
def test_a_drop_has_a_reason_and_a_delivery_has_none(
    fate: Fate, reason: Reason | None
) -> None:
    ledger = Ledger(["front"])
    ledger.captured("front", 0)
    with pytest.raises(LedgerError, match="with reason"):
        ledger.fate("front", 0, fate, reason)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from(Reason))))
def test_the_books_balance_at_every_instant(
    moves: list[tuple[int, bool, Reason]],
) -> None:
    ledger, live = Ledger(["a"]), set[int]()
    for sequence, warm_up, reason in moves:
        key = sequence * 2 + warm_up
        if key in live:
            live.remove(key)
            ledger.fate("a", key, Fate.DROPPED, reason, warm_up=warm_up)
        else:
            live.add(key)
            ledger.captured("a", key, warm_up=warm_up)
        assert ledger.balanced
        in_flight = (ledger.account("a", warm_up=w).in_flight for w in (False, True))
        assert sum(in_flight) == len(live)
