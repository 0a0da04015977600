"""Types of parameters in words, from the JSON schema that pydantic derives from the annotations."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_NAMES = {"string": "text", "boolean": "true | false", "null": "null", "integer": "integer", "number": "number"}


def resolve(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the definition that a schema refers to; the schema itself if it refers to none."""
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def mapping_in(schema: Schema, definitions: Mapping[str, Schema]) -> Schema | None:
    """Return the mapping that a key accepts, perhaps among other types; ``None`` if it accepts none. A section has ``properties``."""
    options = (resolve(option, definitions) for option in schema.get("anyOf", [schema]))
    return next((option for option in options if option.get("type") == "object"), None)


def describe_type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """Return a type in words, for example ``integer >= 1, or null``.

    Args:
        schema: JSON schema of the parameter.
        definitions: Schemas of the sections, by name.
    """
    schema = resolve(schema, definitions)
    if "anyOf" in schema:
        return ", or ".join(describe_type(option, definitions) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    match schema.get("type"):
        case "object":
            return _mapping(schema, definitions)
        case "array":
            return f"list of {_length(schema)}{describe_type(schema['items'], definitions)}"
        case type_:
            return _NAMES[str(type_)] + _bounds(schema)


def _mapping(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    if "properties" in schema:
        return "section"
    values = schema.get("additionalProperties")
    return f"mapping of names to {describe_type(values, definitions)}" if isinstance(values, dict) else "mapping"


def _length(schema: Schema) -> str:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if most is None:
        return f"at least {least}: " if least else ""
    return f"{most}: " if least == most else f"{least or 0} to {most}: "


def _bounds(schema: Schema) -> str:
    if "pattern" in schema:
        return f" that matches {schema['pattern']}"
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']} to {schema['maximum']}"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[name]}" for name, sign in signs.items() if name in schema]
    return f" {' and '.join(bounds)}" if bounds else ""
