"""What the end needs is loaded from the model's first words on, once, and never in the way."""

import threading

from runner.agent.types import MessageStart
from runner.preloading import AT_THE_END, preload_at_first_words


def test_it_begins_with_the_first_words_of_the_model_and_only_once() -> None:
    loaded: list[str] = []
    done = threading.Event()

    def load(name: str) -> None:
        loaded.append(name)
        if name == AT_THE_END[-1]:
            done.set()

    listener = preload_at_first_words(load)
    listener(MessageStart({"role": "user"}), None)
    assert loaded == []
    listener(MessageStart({"role": "assistant"}), None)
    assert done.wait(10)
    listener(MessageStart({"role": "assistant"}), None)
    assert loaded == list(AT_THE_END)


def test_a_module_that_cannot_be_loaded_is_left_to_whoever_needs_it() -> None:
    tried = threading.Event()

    def load(_name: str) -> None:
        tried.set()
        raise ImportError("not here")

    preload_at_first_words(load)(MessageStart({"role": "assistant"}), None)
    assert tried.wait(10)
