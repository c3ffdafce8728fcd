package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;

import dev.starling.tensor.cpu.jit.RowLoop;
import dev.starling.tensor.cpu.rows.FiniteScan.Carries;
import org.jspecify.annotations.Nullable;

/** The loop of {@link FiniteScan} in machine code, on words of 4 bytes: for types that are not wider. */
final class MachineFiniteScan implements Carries {
    static final Carries LOOP = new MachineFiniteScan();
    private static final int COLUMNS = 4096;

    private final RowLoop floats = loop(0x7F80_0000, 0x80_0000);
    private final RowLoop brains = loop(0x7F80_7F80, 0x80_0080);
    private final RowLoop halves = loop(0x7C00_7C00, 0x400_0400);

    /** The number of words that carry, of each row. */
    private static RowLoop loop(int exponent, int lowest) {
        return RowLoop.of(b -> b.sum(b.ifCarries(b.column(), exponent, lowest, b.constant(1), b.constant(0))));
    }

    @Override
    public long of(long x, long bytes, long exponent, long lowest) {
        @Nullable RowLoop loop = switch ((int) exponent) {
            case 0x7F80_0000 -> floats;
            case 0x7F80_7F80 -> brains;
            case 0x7C00_7C00 -> halves;
            default -> null;
        };
        if (loop == null) {
            return RowLoops.bytecode().carries().of(x, bytes, exponent, lowest);
        }
        long counts = RowValues.list(0);
        long words = bytes / 4;
        float count = 0;
        for (long from = 0; from < words;) {
            long rows = Math.clamp((words - from) / COLUMNS, 1, RowValues.ROWS);
            int columns = (int) Math.min(words - from, COLUMNS);
            loop.call().operand(x + 4 * from, 4L * COLUMNS)
                    .operand(counts, 4)
                    .run((int) rows, columns);
            for (int i = 0; i < rows; i++) {
                count += get(counts, i);
            }
            from += rows * columns;
        }
        return count > 0 ? exponent + lowest : 0;
    }
}
