"""Side-by-side measurements; ``make bench`` runs them."""

import tuneline as tuneline  # turns telemetry off, before a benchmark imports other libraries
