import os
import signal

import pytest

from edgepipe.commands.signals import Signals


def test_a_signal_while_starting_leaves_at_once_with_its_own_code() -> None:
    with Signals() as signals, pytest.raises(SystemExit) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert signals.received == signal.SIGTERM


def test_a_signal_while_running_is_noted_and_the_next_one_kills() -> None:
    with Signals() as signals:
        signals.running = True
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.received == signal.SIGINT
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_handlers_from_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Signals():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
