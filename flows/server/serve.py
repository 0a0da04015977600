"""The former name of ``flows.server.schedule``, by which units of systemd that are installed start it.

``tuneline serve`` is something else: it serves a model.
"""

from flows.server.schedule import main
from tuneline.runtime.terminal import say

if __name__ == "__main__":
    say("flows.server.serve is flows.server.schedule now, and tuneline@serve tuneline@schedule:", error=True)
    say("docs/production.md#under-systemd has the commands. The schedule starts all the same.", error=True)
    main()
