package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The sizes and order of a recurrent layer's steps, and which sequences have which steps; shared by both passes. */
final class RecurrentSequence {
    /** The number of sequences that justifies a thread. */
    private static final int ROWS = 4;

    /** A pass over all steps, which can be run any number of times with operands of the same lengths. */
    interface Pass extends Runnable, AutoCloseable {
        /** Frees what belongs to the pass. */
        @Override
        void close();
    }

    /** All steps of a range of sequences. */
    interface Range extends Runnable {
        int sequences();
    }

    /** Makes what carries out all steps of {@code n} sequences. */
    @FunctionalInterface
    interface RangeMaker {
        Range make(int from, int n);
    }

    final Cell cell;
    final int steps;
    final int batch;
    final int inputs;
    final int units;
    /** Number of rows of the weights. */
    final int rows;
    private final boolean reverse;
    /** Read once, so that a change by another thread leads no kernel outside of its operands. */
    private final int @Nullable [] lengths;
    /**
     * For each step and sequence a byte that is 1 if the sequence has the step, then one that is 1 if it is its first
     * step.
     */
    private final @Nullable Block masks;

    RecurrentSequence(Recurrence op, Recurrence.Operands<Tensor> in) {
        cell = op.cell();
        reverse = op.reverse();
        steps = Math.toIntExact(in.x().size(0));
        batch = Math.toIntExact(in.x().size(1));
        inputs = Math.toIntExact(in.x().size(2));
        units = Math.toIntExact(in.h().size(1));
        rows = cell.gates() * units;
        Tensor given = in.lengths();
        lengths = given == null ? null : lengths(op, given);
        masks = lengths == null ? null : HostAllocator.shared().allocate(2L * steps * batch);
        for (int n = 0; masks != null && n < batch; n++) {
            int length = length(n);
            int first = reverse ? length - 1 : 0;
            for (int t = 0; t < steps; t++) {
                ALL.set(ValueLayout.JAVA_BYTE, present(t, n), (byte) (t < length ? 1 : 0));
                ALL.set(ValueLayout.JAVA_BYTE, first(t, n), (byte) (t < length && t == first ? 1 : 0));
            }
        }
    }

    boolean masked() {
        return masks != null;
    }

    /** Returns the step that is processed {@code i}-th. */
    int step(int i) {
        return reverse ? steps - 1 - i : i;
    }

    /** Returns the length of a sequence in steps. */
    int length(int n) {
        return Objects.requireNonNull(lengths)[n];
    }

    private int[] lengths(Recurrence op, Tensor given) {
        int[] checked = new int[batch];
        for (int n = 0; n < batch; n++) {
            long raw = HostMemory.getLong(given.dtype(), given.address() + (long) n * given.dtype().bytes());
            checked[n] = Recurrence.length(op, raw, n, steps);
        }
        return checked;
    }

    /** Returns the address of the byte that states whether sequence {@code n} has step {@code t}. */
    long present(int t, int n) {
        return Objects.requireNonNull(masks).address() + (long) t * batch + n;
    }

    /** Returns the address of the byte that states whether sequence {@code n} begins with step {@code t}. */
    long first(int t, int n) {
        return Objects.requireNonNull(masks).address() + (long) (steps + t) * batch + n;
    }

    /** Returns the address of sequence {@code n} at step {@code t} of an array with {@code width} elements for each. */
    long at(long address, int t, int n, long width) {
        return address + 4 * ((long) t * batch + n) * width;
    }

    /** Returns a task for {@link #share} that makes each range when it is first needed, and then runs it again. */
    RangeTask ranges(RangeMaker maker) {
        @Nullable Range[] made = new Range[batch];
        return (from, to) -> {
            Range range = made[(int) from];
            if (range == null || range.sequences() != to - from) {
                range = maker.make((int) from, (int) (to - from));
                made[(int) from] = range;
            }
            range.run();
        };
    }

    /**
     * Divides the sequences among threads: each goes through all steps with its own sequences and waits for no other.
     */
    void share(RangeTask task) {
        long grain = Math.max(ROWS, Math.ceilDiv(batch, Parallel.threads()));
        Parallel.forRange(batch, grain, task);
    }

    static Matmul product(long m, long n, long k) {
        return new Matmul(ElementType.F32, ElementType.F32, m, n, k);
    }

    void close() {
        if (masks != null) {
            HostAllocator.shared().free(masks);
        }
    }
}
