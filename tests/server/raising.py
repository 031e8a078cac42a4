"""What workers expect to be told. They are many, and start sooner without pytest."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Caught:
    value: BaseException = field(default_factory=BaseException)


@contextmanager
def raises(kinds: type[BaseException] | tuple[type[BaseException], ...], match: str = "") -> Iterator[Caught]:
    caught = Caught()
    try:
        yield caught
    except kinds as error:
        caught.value = error
    else:
        raise AssertionError(f"nothing raised {kinds}")
    assert re.search(match, str(caught.value)), f"{match!r} is not in {caught.value}"
