"""The page at ``/``: files that a browser loads without a token; what they show comes from other paths."""

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE_FILES = {
    "/": ("tuneline.service", "page.html", "text/html"),
    "/page.css": ("tuneline.service", "page.css", "text/css"),
    "/page.js": ("tuneline.service", "page.js", "text/javascript"),
    "/style.css": ("tuneline.reports", "style.css", "text/css"),
}
"""Package, file in its templates, and media type of what is behind each path."""


def page_routes() -> list[Route]:
    """Return the paths of the page; its files are read once."""
    routes = []
    for path, (package, name, media_type) in PAGE_FILES.items():
        content = (resources.files(package) / "templates" / name).read_bytes()
        routes.append(_file_route(path, content, media_type))
    return routes


def _file_route(path: str, content: bytes, media_type: str) -> Route:
    async def page_file(_request: Request) -> Response:
        return Response(content, media_type=media_type)

    return Route(path, page_file, methods=["GET"])
