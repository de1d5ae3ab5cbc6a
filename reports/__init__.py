"""The HTML report: templates, SVG and rendering; what it writes goes to reports/out, outside git."""
