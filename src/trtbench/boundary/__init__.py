"""The one check of everything that comes from outside: names, paths, owners, texts and sizes.

Knows errors and the file system's own facts only. Every room that reads something which another
person, machine or file wrote asks here first.
"""

from __future__ import annotations

from trtbench.boundary.files import (
    check_archive,
    check_file,
    check_filled,
    check_nesting,
    check_parts,
    read_bytes,
    read_settings,
    read_text,
    read_toml,
    stranger,
    user_name,
)
from trtbench.boundary.names import (
    at_home,
    check_id,
    check_name,
    check_tag,
    check_title,
    file_name_from_text,
    inside,
    is_inside,
    tag_from_text,
)
from trtbench.boundary.secrets import mask, mask_values, mask_words, may_hold_secret
from trtbench.boundary.texts import clean_line, clean_text, csv_cell, shown, xml_text

__all__ = [
    "at_home",
    "check_archive",
    "check_file",
    "check_filled",
    "check_id",
    "check_name",
    "check_nesting",
    "check_parts",
    "check_tag",
    "check_title",
    "clean_line",
    "clean_text",
    "csv_cell",
    "file_name_from_text",
    "inside",
    "is_inside",
    "mask",
    "mask_values",
    "mask_words",
    "may_hold_secret",
    "read_bytes",
    "read_settings",
    "read_text",
    "read_toml",
    "shown",
    "stranger",
    "tag_from_text",
    "user_name",
    "xml_text",
]
