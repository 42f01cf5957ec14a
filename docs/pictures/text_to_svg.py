#!/usr/bin/env python3
"""Text of a terminal on stdin, a picture of it (SVG) on stdout."""
import sys
from html import escape

WIDTH, HEIGHT, MARGIN = 8.4, 18, 14

lines = [line.rstrip() for line in sys.stdin.read().rstrip().splitlines()]
columns = max(len(line) for line in lines)
wide, high = columns * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">')
print(f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" fill="#16181d"/>')
print('<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#d7dae0" xml:space="preserve">')
for at, line in enumerate(lines):
    if line:
        y = MARGIN + (at + 0.75) * HEIGHT
        # Every font then has the same columns.
        print(f'<text x="{MARGIN}" y="{y:.0f}" textLength="{len(line) * WIDTH:.1f}">{escape(line)}</text>')
print("</g>\n</svg>")
