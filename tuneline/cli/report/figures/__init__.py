"""Figures of the report as SVG that follows the page: its width, its font, its light or dark colours."""
