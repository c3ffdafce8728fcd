package dev.starling.tensor.program;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * The operations of a {@link Program} as the work issued them and as a run carries them out, and what they cost.
 * {@link #toString} prints both as tables, {@link #write} draws them.
 *
 * @param before the operations of the work, in order
 * @param after the operations of a run, in order
 * @param memory size of the program's memory in bytes
 */
public record Explanation(List<Line> before, List<Line> after, long memory) {
    private static final double MEGA = 1e6;

    /** Copies the lists. */
    public Explanation {
        before = List.copyOf(before);
        after = List.copyOf(after);
    }

    /**
     * One operation.
     *
     * @param operation its name; for operations that are fused into one kernel, all their names
     * @param operands what it reads
     * @param result type and shape of its first result, or of the tensor that it changes
     * @param bytes size of all operands and results: what it reads and writes at least
     * @param flops floating-point operations, as {@link dev.starling.tensor.op.Flops} counts them
     * @param reorders how often kernels of the CPU copied an operand or a result to another memory layout: at capture
     *     or, for a line of {@link Explanation#after}, in the latest run. A kernel counts in each of its threads, and
     *     what other threads and uncaptured work copy meanwhile is included
     * @param into for a line of {@link Explanation#before}, the index of the line of {@link Explanation#after} that
     *     carries it out; -1 if a run has nothing to do for it
     * @param note why a run has nothing to do for it, or with what it is fused; otherwise empty
     */
    public record Line(String operation, List<Operand> operands, String result, long bytes, long flops, long reorders,
            int into, String note) {
        /** Copies the list. */
        public Line {
            operands = List.copyOf(operands);
        }
    }

    /**
     * What an operation reads.
     *
     * @param line index of the line, in the same list, whose result it is, or -1
     * @param name the line's index, {@code input} and its number, {@code constant} for what the work's host computed or
     *     a program computes once, or type and shape of a tensor that existed before, such as a parameter
     */
    public record Operand(int line, String name) { }

    /**
     * Writes a page that shows both lists side by side, with the flow of values, and replaces an existing file.
     *
     * @throws UncheckedIOException if the file cannot be written
     */
    public void write(Path page) {
        try {
            Files.writeString(page, new ExplanationPage(this).html());
        } catch (IOException e) {
            throw new UncheckedIOException("cannot write the explanation to " + page, e);
        }
    }

    /** Returns in words what lines cost together; operations that read and write no bytes are not counted. */
    static String total(List<Line> lines) {
        return String.format(Locale.ROOT, "%,d operations, %s MB read and written, %s MFLOP, %,d reorders",
                lines.stream().filter(line -> line.bytes > 0).count(),
                mega(lines.stream().mapToLong(Line::bytes).sum()), mega(lines.stream().mapToLong(Line::flops).sum()),
                lines.stream().mapToLong(Line::reorders).sum());
    }

    static String mega(long n) {
        return String.format(Locale.ROOT, "%,.3f", n / MEGA);
    }

    /** Returns both lists as tables. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        append(text, "captured", before);
        append(text.append('\n'), "in a run", after);
        return text.append("memory of the program: ").append(mega(memory)).append(" MB\n").toString();
    }

    private static void append(StringBuilder text, String title, List<Line> lines) {
        text.append(title).append(": ").append(total(lines)).append('\n');
        String[][] cells = new String[lines.size() + 1][];
        cells[0] = new String[] {"", "operation", "operands", "result", "MB", "MFLOP", "reorders", ""};
        for (int i = 0; i < lines.size(); i++) {
            Line line = lines.get(i);
            cells[i + 1] = new String[] {Integer.toString(i), line.operation,
                String.join(", ", line.operands.stream().map(Operand::name).toList()), line.result, mega(line.bytes),
                mega(line.flops), line.reorders == 0 ? "" : Long.toString(line.reorders), line.note};
        }
        int columns = cells[0].length;
        int[] width = new int[columns];
        for (String[] row : cells) {
            for (int c = 0; c < columns; c++) {
                width[c] = Math.max(width[c], row[c].length());
            }
        }
        for (String[] row : cells) {
            StringBuilder line = new StringBuilder();
            for (int c = 0; c < columns; c++) {
                boolean number = c == 0 || c >= 4 && c <= 6;
                line.append(number ? " ".repeat(width[c] - row[c].length()) + row[c]
                        : row[c] + " ".repeat(width[c] - row[c].length())).append("  ");
            }
            text.append(line.toString().stripTrailing()).append('\n');
        }
    }
}
