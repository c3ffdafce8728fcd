package dev.starling.nn.data;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Memory for one example that a data set reads from another one. Confined to one thread. */
final class ScratchExample implements Rows {
    private static final long ALIGNMENT = 64;

    private final List<Field> fields;
    private final MemorySegment[] segments;
    private int epoch;
    /** {@code null} before the first example is read. */
    private @Nullable Example example;

    /** Allocates the memory. The fields must not vary in length. */
    ScratchExample(List<Field> fields) {
        this.fields = fields;
        segments = fields.stream().map(f -> Arena.ofAuto().allocate(Math.max(1, f.bytes()), ALIGNMENT))
                .toArray(MemorySegment[]::new);
    }

    /** Reads an example with the seed and the epoch of {@code context}. */
    ScratchExample read(Dataset dataset, int index, Example context) throws Exception {
        epoch = context.epoch();
        int depth = context.depth() + 1;
        Example target = example;
        if (target == null || target.seed() != context.seed() || target.depth() != depth) {
            target = new Example(fields, context.seed(), depth);
            target.moveTo(this, 0);
            example = target;
        }
        target.fill(dataset, index);
        return this;
    }

    @Override
    public int epoch() {
        return epoch;
    }

    /** Returns 0: no field varies. */
    @Override
    public int length() {
        return 0;
    }

    @Override
    public MemorySegment segment(int field) {
        return segments[field];
    }
}
