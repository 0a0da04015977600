# The commands for the developers of Tuneline: Makefile, which projects have as well, includes this file.

.PHONY: test-gpu
test-gpu: setup ## Run the tests that need a GPU; without one, say which were skipped
	@python -m pytest -m gpu -n 0 -rs $(ARGS)

.PHONY: parameters
parameters: setup ## Write docs/parameters.md and conf/base.yaml from the fields
	@python -m tests.docs.parameters_page

.PHONY: lint
lint: setup ## Check style and types
	@ruff check .
	@ruff format --check .
	@mypy

.PHONY: format
format: setup ## Format the code and fix what ruff can fix
	@ruff check --fix --quiet . || true
	@ruff format .

# torch has no hash: its build is the user's choice, and each build has another. uv verifies the hashes that there are.
.PHONY: lock
lock: setup ## Compile requirements.txt from pyproject.toml
	@$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --extra dev --extra ray --extra s3 --no-header --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.txt $(ARGS)
	@sed -i -e '/^# The following packages were excluded/,$$d' -e '/^torch==/,/^ *#/{/--hash=/d; s/^\(torch==[0-9.]*\).*/\1/}' requirements.txt

.PHONY: bench-gpu
bench-gpu: setup ## Measure training on a GPU against the Trainer of transformers
	@python -m benchmarks.training --device cuda --bf16 1 --layers 12 --hidden 768 $(ARGS)
