"""Names that try to be more than text."""

from __future__ import annotations

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src="http://127.0.0.1:9/x" onerror="window.hacked=2"> {in EUR} {people whole}',
    "{{ 7 * 7 }}{% raw %}\u2028\u2029'`${window.hacked=3}",
    "<!--<script>",
    "--></style><svg onload=window.hacked=4>",
    "&lt;b&gt; ]]> \x00\x1b[31m \u202egpj.exe",
)
