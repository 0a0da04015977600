"""The model that answers: it is replaced while requests are answered, by one that was checked.

A request keeps the model that was there when it came, so none is lost and none is answered by two. A model
that is damaged, or computes other numbers than at its export, never gets a request: the one before answers
on.
"""

import asyncio
import contextlib
from collections.abc import Callable

from tuneline.runtime.terminal import say
from tuneline.service.models import ModelSource


class ServedModel:
    """The model of a service, and where it comes from.

    Attributes:
        current: The model that gets the next request.
    """

    def __init__(self, source: ModelSource, on_reload: Callable[[str], None]) -> None:
        """Load the model.

        Args:
            source: Where it comes from.
            on_reload: Gets ``loaded`` or ``refused`` after a change of the source.

        Raises:
            StageError: It cannot be used.
        """
        self._source = source
        self._on_reload = on_reload
        self._state = source.state()
        self._refused = ""
        self.current = source.load()

    async def follow(self, seconds: float, woken: asyncio.Event) -> None:
        """Replace the model when its source changes: look every so many seconds, and when ``woken``."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), seconds)
            woken.clear()
            await self.look()

    async def look(self) -> None:
        """Replace the model if the source has another one that can be used."""
        try:
            state = await asyncio.to_thread(self._source.state)
            if state == self._state:
                self._refused = ""
                return
            model = await asyncio.to_thread(self._source.load)
        except Exception as error:  # whatever is in the source now, the model before answers on
            if str(error) != self._refused:
                say(f"serve: version {self.current.version} answers on: {error}", error=True)
                self._on_reload("refused")
            self._refused = str(error)
            return
        say(
            f"serve: version {model.version} answers from now on, instead of {self.current.version}",
            error=True,
        )
        self._state = state
        self._refused = ""
        self.current = model
        self._on_reload("loaded")
