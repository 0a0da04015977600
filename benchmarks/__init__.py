"""Side-by-side measurements of this code and of what it replaces."""

import tuneline as tuneline  # turns telemetry off, before a benchmark imports other libraries
