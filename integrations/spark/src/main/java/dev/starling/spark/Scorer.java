package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;

/** Collects the inputs of a batch of rows and scores them together. Confined to one thread. */
final class Scorer {
    private static final long ALIGNMENT = 64;

    private final ScoredModel model;
    private final Columns columns;
    private final Output.Kind[] kinds;
    private final RowReader reader;
    private final long rowBytes;
    /** The index of each row's input in the batch; -1 if the row has none, and its results are null. */
    private final int[] slots;
    private final Object[][] results;
    /** Grows with the batch: only the garbage collector frees it, and many tasks have few rows. */
    private MemorySegment input;
    private int rows;
    private int used;

    /**
     * Creates a scorer.
     *
     * @param kinds of results, all of one forward pass
     * @param capacity maximum number of rows in a batch
     */
    Scorer(ScoredModel model, Columns columns, List<Output.Kind> kinds, int capacity) {
        this.model = model;
        this.columns = columns;
        this.kinds = kinds.toArray(Output.Kind[]::new);
        reader = new RowReader(columns);
        rowBytes = RowReader.bytes(columns);
        input = allocate(1);
        slots = new int[capacity];
        results = new Object[this.kinds.length][];
    }

    private MemorySegment allocate(int count) {
        return Arena.ofAuto().allocate(rowBytes * count, ALIGNMENT);
    }

    void clear() {
        rows = 0;
        used = 0;
    }

    int rows() {
        return rows;
    }

    boolean isFull() {
        return rows == slots.length;
    }

    /**
     * Adds a row to the batch.
     *
     * @param places of the inputs in the row
     * @throws SparkDataException if the model cannot score it
     */
    void add(InternalRow row, int[] places, RowName name) {
        int slot = -1;
        if (!model.nullForNull() || !hasNull(row, places)) {
            if ((used + 1) * rowBytes > input.byteSize()) {
                input = allocate(Math.min(2 * used, slots.length)).copyFrom(input);
            }
            try {
                reader.read(row, places, input, used * rowBytes, name);
                slot = used++;
            } catch (SparkDataException e) {
                if (!model.nullForBadRows()) {
                    throw e;
                }
            }
        }
        slots[rows++] = slot;
    }

    private static boolean hasNull(InternalRow row, int[] places) {
        for (int place : places) {
            if (row.isNullAt(place)) {
                return true;
            }
        }
        return false;
    }

    /** Scores all rows of the batch. */
    void compute(Layer layer) {
        if (used == 0) {
            return;
        }
        TaskContext context = TaskContext.get();
        Threads.with(context == null ? 1 : context.cpus(), () -> {
            try (Scope scope = Scope.open("predict")) {
                Shape shape = Shape.of(columns.shape()).insert(0, used);
                Tensor x = Tensor.wrap(input, DType.F32, shape.dims());
                Tensor result = Mode.inference(() -> layer.forward(x));
                if (result.shape().rank() == 0 || result.size(0) != used) {
                    throw new SparkDataException("the model returned " + result.shape() + " for " + used
                            + " rows; the first size must be the number of rows");
                }
                Tensor y = result.reshape(used, -1);
                for (int i = 0; i < kinds.length; i++) {
                    results[i] = kinds[i].of(y);
                }
                return null;
            }
        });
    }

    /** Returns a result of a row of the batch as Spark's rows hold it, or {@code null}. */
    Object result(int row, int kind) {
        return slots[row] < 0 ? null : results[kind][slots[row]];
    }
}
