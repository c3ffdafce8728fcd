package dev.starling.tensor.program;

import dev.starling.tensor.program.Explanation.Line;
import dev.starling.tensor.program.Explanation.Operand;
import java.util.List;
import java.util.Locale;

/** Draws an {@link Explanation} as HTML. */
final class ExplanationPage {
    private static final int ROW = 18;
    private static final int TOP = 40;
    /** Width of the arcs beside a list, of its text, of its bars, and of the gap between the lists. */
    private static final int ARCS = 110;
    private static final int TEXT = 400;
    private static final int BARS = 90;
    private static final int GAP = 90;
    private static final int COLUMN = ARCS + TEXT + BARS;
    private static final int LETTERS = 62;

    private final Explanation explanation;
    private final StringBuilder out = new StringBuilder();

    ExplanationPage(Explanation explanation) {
        this.explanation = explanation;
    }

    String html() {
        int rows = Math.max(explanation.before().size(), explanation.after().size());
        add("<!DOCTYPE html>%n<html lang=\"en\"><meta charset=\"utf-8\"><title>Starling: program</title>%n<style>"
                + "body{font:14px sans-serif;margin:2em;color:#222}text{font:12px sans-serif}"
                + ".idle{fill:#999}.arc{fill:none;stroke:#3b76b0;stroke-opacity:.35}"
                + ".into{stroke:#4c9a4c;stroke-opacity:.4}.bar{fill:#e28a2b}</style>%n<h1>Program</h1>%n");
        add("<p>Each line is an operation; arcs lead from an operation to those that read its result; bars show the"
                + " bytes that it reads and writes. The program has %s MB of memory.</p>%n",
                Explanation.mega(explanation.memory()));
        add("<svg width=\"%d\" height=\"%d\">%n", 2 * COLUMN + GAP, TOP + ROW * (rows + 1));
        long most = Math.max(1, explanation.before().stream().mapToLong(Line::bytes).max().orElse(1));
        list("captured", explanation.before(), 0, most);
        list("in a run", explanation.after(), COLUMN + GAP, most);
        for (int i = 0; i < explanation.before().size(); i++) {
            int into = explanation.before().get(i).into();
            if (into >= 0) {
                add("<line class=\"into\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>%n", COLUMN, middle(i),
                        COLUMN + GAP, middle(into));
            }
        }
        return out.append("</svg>\n</html>\n").toString();
    }

    private void add(String format, Object... values) {
        out.append(String.format(Locale.ROOT, format, values));
    }

    private static int middle(int line) {
        return TOP + ROW * line + ROW / 2;
    }

    private void list(String title, List<Line> lines, int left, long most) {
        add("<text x=\"%d\" y=\"16\" font-weight=\"bold\">%s: %s</text>%n", left, title, Explanation.total(lines));
        for (int i = 0; i < lines.size(); i++) {
            Line line = lines.get(i);
            for (Operand operand : line.operands()) {
                if (operand.line() >= 0) {
                    arc(left + ARCS, operand.line(), i);
                }
            }
            String text = i + "  " + line.operation() + "  " + line.result()
                    + (line.note().isEmpty() ? "" : "  (" + line.note() + ")");
            add("<text x=\"%d\" y=\"%d\"%s>%s<title>%s: %s MB, %s MFLOP, %d reorders</title></text>%n",
                    left + ARCS + 4, middle(i) + 4, line.bytes() == 0 || line.into() < 0 && !line.note().isEmpty()
                            ? " class=\"idle\"" : "",
                    escaped(text.length() > LETTERS ? text.substring(0, LETTERS - 1) + "…" : text), escaped(text),
                    Explanation.mega(line.bytes()), Explanation.mega(line.flops()), line.reorders());
            add("<rect class=\"bar\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>%n", left + ARCS + TEXT,
                    middle(i) - 5, (double) BARS * line.bytes() / most, 10);
        }
    }

    private void arc(int x, int from, int to) {
        double depth = Math.min(ARCS - 4, 8 + 6 * Math.sqrt(to - from));
        add("<path class=\"arc\" d=\"M%d,%d C%.0f,%d %.0f,%d %d,%d\"/>%n", x, middle(from), x - depth, middle(from),
                x - depth, middle(to), x, middle(to));
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }
}
