#!/usr/bin/env python3
"""make_locale.py DIRECTORY: writes the locale `xx_XX`, whose numbers have a decimal comma. Needs only the program localedef."""
import os
import pathlib
import subprocess
import sys

where = pathlib.Path(sys.argv[1])
where.mkdir(parents=True, exist_ok=True)
(where / "characters").write_text("<code_set_name> ASCII\n<comment_char> %\n<escape_char> /\nCHARMAP\n" +
                                  "".join(f"<U{i:04X}> /x{i:02x} c\n" for i in range(128)) + "END CHARMAP\n")
(where / "source").write_text('comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point ","\nthousands_sep "."\ngrouping 3;3\nEND LC_NUMERIC\n')
# localedef warns of each missing category and then exits with a status other than 0, which is ignored.
subprocess.run(["localedef", "-c", "--no-archive", "-f", where / "characters", "-i", where / "source", where / "xx_XX"],
               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
assert os.path.exists(where / "xx_XX" / "LC_NUMERIC"), "localedef wrote nothing"
