"""Messages handed over within a process: their order, who waits, and what goes out on DDS."""

import time
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from std_msgs.msg import String

from quadsim.ros.messages.cdr import deserialize
from quadsim.ros.runtime.intra_process import TURN, Handing, Listening


class Later:
    """An executor that does what it is given when it is told to."""

    def __init__(self):
        self.tasks = []

    def create_task(self, callback, *args):
        self.tasks.append((callback, args))

    def turn(self):
        callback, args = self.tasks.pop(0)
        callback(*args)


class OnDds:
    def __init__(self, listeners=0):
        self.listeners, self.sent = listeners, []

    def get_subscription_count(self):
        return self.listeners

    def publish(self, message):
        self.sent.append(message)


@pytest.fixture
def executor():
    return Later()


@pytest.fixture
def handing(executor):
    return Handing(executor)


def never():
    raise AssertionError("heard through DDS")


def listen(handing, topic, callback, subscribe=never, depth=10):
    listening = Listening(String, callback, depth)
    handing.listen(topic, listening, subscribe)
    return listening


def test_who_listens_before_the_publisher_is_made_hears_too(handing):
    heard = []
    listening = listen(handing, "/a", heard.append)
    publisher = handing.offer("/a", OnDds())
    assert listening.get_publisher_count() == 0
    handing.connect()
    assert listening.get_publisher_count() == publisher.get_subscription_count() == 1
    handing.run(publisher.publish, b"1")
    assert heard == [b"1"]


def test_what_nobody_here_publishes_is_heard_through_dds(handing):
    asked = []
    listen(handing, "/before", None, lambda: asked.append("before"))
    handing.connect()
    listen(handing, "/after", None, lambda: asked.append("after"))
    assert asked == ["before", "after"]


def test_messages_come_in_the_order_of_sending_after_the_callback_that_sent(handing):
    first, second = handing.offer("/first", OnDds()), handing.offer("/second", OnDds())
    said = []

    def answer(payload):
        second.publish(payload + b" answered")
        said.append(payload)

    listen(handing, "/first", answer)
    listen(handing, "/second", said.append)
    handing.connect()

    def send():
        first.publish(b"1")
        first.publish(b"2")
        said.append(b"sent")

    handing.run(send)
    assert said == [b"sent", b"1", b"2", b"1 answered", b"2 answered"]


def test_a_loop_of_nodes_leaves_others_their_turn(handing, executor):
    publisher = handing.offer("/loop", OnDds())
    heard = []

    def again(payload):
        heard.append(payload)
        publisher.publish(payload)

    listen(handing, "/loop", again)
    handing.connect()
    handing.run(publisher.publish, b"1")
    assert len(heard) == TURN
    for others in range(3):  # what they send waits for its turn, and asks for none of its own
        handing.run(publisher.publish, b"more")
        assert len(executor.tasks) == 1, others
    assert len(heard) == TURN
    executor.turn()
    assert len(heard) == 2 * TURN
    assert len(executor.tasks) == 1


def test_who_sleeps_is_not_called_and_keeps_the_newest(handing):
    publisher = handing.offer("/a", OnDds())
    heard = []
    listening = listen(handing, "/a", heard.append, depth=2)
    handing.connect()
    listening.paused = True
    for payload in (b"1", b"2", b"3"):
        handing.run(publisher.publish, payload)
    assert heard == []
    assert [payload for _, _, payload in listening.taken()] == [b"2", b"3"]
    assert list(listening.taken()) == []
    listening.paused = False
    handing.run(publisher.publish, b"4")
    assert heard == [b"4"]


def test_who_listens_no_more_hears_not_even_what_was_on_the_way(handing):
    publisher = handing.offer("/a", OnDds())
    heard = []
    listening = listen(handing, "/a", heard.append)
    handing.connect()

    def send():
        publisher.publish(b"1")
        handing.forget(listening)

    handing.run(send)
    handing.run(publisher.publish, b"2")
    assert heard == []


def test_it_goes_out_where_somebody_else_listens(handing):
    alone, heard_elsewhere = OnDds(), OnDds(listeners=1)
    messages = []
    first, second = handing.offer("/a", alone), handing.offer("/b", heard_elsewhere)
    listen(handing, "/b", lambda payload: messages.append(deserialize(payload, String)))
    handing.connect()
    handing.run(first.publish, String(data="nobody"))
    handing.run(second.publish, String(data="both"))
    assert alone.sent == []
    assert [message.data for message in (*heard_elsewhere.sent, *messages)] == ["both", "both"]


def test_a_callback_that_fails_leaves_the_rest_for_the_next(handing):
    publisher = handing.offer("/a", OnDds())
    heard = []

    def refuse(payload):
        if payload == b"1":
            raise ValueError(payload)
        heard.append(payload)

    listen(handing, "/a", refuse)
    handing.connect()

    def send():
        publisher.publish(b"1")
        publisher.publish(b"2")

    with pytest.raises(ValueError, match="1"):
        handing.run(send)
    handing.run(lambda: None)
    assert heard == [b"2"]


def test_what_is_sent_outside_of_a_turn_is_worked_off_soon(handing, executor):
    """As a service sends, whose callback nobody wraps."""
    publisher = handing.offer("/a", OnDds())
    heard = []
    listen(handing, "/a", heard.append)
    handing.connect()
    publisher.publish(b"1")
    publisher.publish(b"2")
    assert heard == []
    assert len(executor.tasks) == 1
    executor.turn()
    assert heard == [b"1", b"2"]
    assert executor.tasks == []


def test_who_is_roused_hears_nothing_old_later(handing):
    publisher = handing.offer("/a", OnDds())
    listening = listen(handing, "/a", lambda _: None)
    handing.connect()
    listening.paused = True
    handing.run(publisher.publish, b"old")
    listening.resume()
    assert not listening.paused
    listening.paused = True
    handing.run(publisher.publish, b"new")
    assert [payload for _, _, payload in listening.taken()] == [b"new"]


def test_nothing_is_handed_over_any_more(handing, executor):
    publisher = handing.offer("/a", OnDds())
    heard = []
    listen(handing, "/a", heard.append)
    handing.connect()
    publisher.publish(b"1")
    handing.close()
    publisher.publish(b"2")
    for callback, args in executor.tasks:
        callback(*args)
    assert heard == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((3, 5), (3, 5)),
        ((3, 0), (3, 3)),  # rmw_cyclonedds does not know when it came
        ((0, 5), (5, 5)),
        ((0, 0), (7, 7)),
    ],
)
def test_times_that_are_not_known_are_the_next_best(monkeypatch, said, found):
    monkeypatch.setattr(time, "time_ns", lambda: 7)
    listening = Listening(String, never, 10)
    messages = [(b"x", {"source_timestamp": said[0], "received_timestamp": said[1]}), None]
    handle = SimpleNamespace(take_message=lambda kind, raw: messages.pop(0))
    listening.subscription = SimpleNamespace(handle=handle)
    assert list(listening.taken()) == [(*found, b"x")]
