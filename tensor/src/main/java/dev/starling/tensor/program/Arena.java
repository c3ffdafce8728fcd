package dev.starling.tensor.program;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;

/**
 * The memory of a program: blocks that values with disjoint lifetimes share. The program owns the blocks for its whole
 * life, so that every value has the same address in all runs. Freed by {@link #close}, or when no value is reachable
 * any more.
 */
final class Arena {
    /** A block larger than this multiple of a request does not serve it. */
    private static final int MAX_WASTE = 4;

    private final List<Slot> slots = new ArrayList<>();

    /** A block, and the number of groups of values that occupy it. */
    static final class Slot {
        private final Tensor memory;
        private int holders;

        private Slot(Tensor memory) {
            this.memory = memory;
        }

        void hold() {
            holders++;
        }

        /** Ends one occupation; after the last one the block serves other values. */
        void release() {
            holders--;
        }

        Tensor lend(Spec spec, long[] strides) {
            return memory.storage().lend(spec, strides);
        }
    }

    /** Returns the smallest free block that holds {@code bytes}, or a new one if none does; the caller holds it. */
    Slot acquire(Device device, long bytes) {
        Slot best = null;
        for (Slot slot : slots) {
            long size = slot.memory.count();
            if (slot.holders == 0 && slot.memory.device() == device && size >= bytes && size / MAX_WASTE <= bytes
                    && (best == null || size < best.memory.count())) {
                best = slot;
            }
        }
        if (best != null) {
            best.hold();
            return best;
        }
        return fresh(device, bytes);
    }

    /** Returns a block that no value has occupied before; the caller holds it. */
    Slot fresh(Device device, long bytes) {
        Spec spec = new Spec(DType.U8, Shape.of(bytes), device);
        Slot fresh = new Slot(Interceptor.with(Interceptor.NONE, () -> Scope.detached(() -> Storage.allocate(spec))));
        fresh.hold();
        slots.add(fresh);
        return fresh;
    }

    /** Returns whether a tensor lies in one of the blocks. */
    boolean contains(Tensor tensor) {
        for (Slot slot : slots) {
            long from = slot.memory.address();
            if (slot.memory.device() == tensor.device() && tensor.address() >= from
                    && tensor.address() < from + slot.memory.count()) {
                return true;
            }
        }
        return false;
    }

    /** Returns the total size in bytes. */
    long bytes() {
        long sum = 0;
        for (Slot slot : slots) {
            sum += slot.memory.count();
        }
        return sum;
    }

    void close() {
        slots.forEach(slot -> slot.memory.close());
        slots.clear();
    }
}
