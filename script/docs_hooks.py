"""What the documents need to become pages: links to the code that a reader of the repository follows become names.

Links to what is not in the repository stay, so that the strict build names them.
"""
import posixpath
import re
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)\)")


def on_page_markdown(markdown, page, config, files):
    root = Path(config.config_file_path).parent
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link):
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[0] if files.get_file_from_path(path) or not (root / path).exists() else link[1]

    return LINK.sub(replaced, markdown)
