"""The look of the HTML report: light and dark, no script, nothing from outside. Its hash is in the page's policy."""

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--box:#f6f8fa;--link:#0550ae;
--model:#0969da;--tool:#1a7f37;--bad:#b42318;--user:#ddf4ff}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--line:#3d444d;--box:#161b22;
--link:#79c0ff;--model:#58a6ff;--tool:#3fb950;--bad:#ff7b72;--user:#0c2d4a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1rem;background:var(--bg);color:var(--fg);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;list-style:none}
h1{font-size:1.5rem}h2{font-size:1.25rem;border-bottom:1px solid var(--line);margin-top:2rem}h3{font-size:1rem;margin:0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:var(--dim)}dd{margin:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem}
th,td{text-align:start;padding:.2rem .6rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}
caption{text-align:start;color:var(--dim)}
svg{display:block;width:12rem;height:.9rem;background:var(--box)}
.m{fill:var(--model)}.t{fill:var(--tool)}.f{fill:var(--bad)}
pre{white-space:pre-wrap;margin:.4rem 0;padding:.5rem;background:var(--box);border-radius:4px;
font:.875rem/1.45 ui-monospace,monospace;unicode-bidi:plaintext}
pre.plain{background:none;padding:0;font:inherit}
pre.thinking{border-inline-start:3px solid var(--line);color:var(--dim)}
pre.error,.bad{color:var(--bad)}
article{border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;margin:.8rem 0}
article.user{background:var(--user)}
article.aside{border-style:dashed;opacity:.85}
.meta{color:var(--dim);font-size:.8rem;font-weight:400}
summary{cursor:pointer;color:var(--dim)}
img{max-width:100%;max-height:40rem}
ol.tree{list-style:none;padding:0;font-size:.875rem}
.d1{margin-inline-start:1.5rem}.d2{margin-inline-start:3rem}.d3{margin-inline-start:4.5rem}
.d4{margin-inline-start:6rem}.d5{margin-inline-start:7.5rem}.d6{margin-inline-start:9rem}
@media print{details>*{display:block}nav,.skip{display:none}}
"""

DEEPEST = 6
"""The deepest indentation that the style has a class for."""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'; "
    "script-src 'none'"
)
"""For the page's Content-Security-Policy: this style, images of the session, and nothing else."""
