package dev.starling.cuda.kernels;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.Waits;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Records of indices out of range. Each launching thread has a slot, into which its kernels write the first bad index
 * that they meet; when a thread has ended, another reuses its slot. A slot consists of a record in pinned memory (the
 * host's side of the struct {@code FaultRecord} in {@code prelude.cuh}), which the thread reads whenever it waits for
 * the device anyway, and of a flag in device memory, which guarded updates read. No thread waits only to check indices.
 */
final class Faults {
    /** How many operations are remembered for messages; a training loop has few, which recur. */
    static final int REMEMBERED = 4096;
    private static final int BYTES = 40;
    private static final int FLAG_BYTES = 4;
    private static final int OPERATION = 4;
    private static final int INDEX = 8;
    private static final int POSITION = 16;
    private static final int BROKEN = 24;
    private static final int ANSWER = 32;

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final ThreadLocal<Slot> mine = new ThreadLocal<>();
    /** All slots; guarded by itself. */
    private final List<Slot> slots = new ArrayList<>();

    /** An operation with its operands and the range of its indices. */
    private record Subject(Op op, long min, long max, List<Spec> operands) { }

    private record Registered(int number, Subject subject) { }

    /** A thread's slot. {@code graphs} counts the captured graphs whose kernels write to it. */
    private record Slot(Thread owner, MemorySegment record, long flag, Map<Subject, Registered> known,
            Registered[] recent, int[] count, AtomicInteger graphs) { }

    Faults(Gpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = stream;
    }

    private Slot slot() {
        Slot slot = mine.get();
        if (slot == null) {
            synchronized (slots) {
                slot = next();
                slots.add(slot);
            }
            mine.set(slot);
        }
        return slot;
    }

    /** Returns a new slot, in the memory of one whose thread has ended if there is one. */
    private Slot next() {
        for (int i = 0; i < slots.size(); i++) {
            Slot unused = slots.get(i);
            if (!unused.owner.isAlive() && unused.graphs.get() == 0) {
                Waits.synchronize(gpu, stream, "kernels of a thread that has ended");
                slots.remove(i);
                return cleared(unused.record, unused.flag);
            }
        }
        long flag = gpu.allocate(FLAG_BYTES);
        if (flag == 0) {
            gpu.trim();
            flag = gpu.allocate(FLAG_BYTES);
        }
        if (flag == 0) {
            throw new TensorException(TensorException.Problem.MEMORY, "index check", List.of(),
                    "the device has less than " + FLAG_BYTES + " bytes of free memory",
                    "close tensors, or use a smaller batch");
        }
        long pinned = 0;
        try {
            pinned = gpu.allocatePinned(BYTES);
        } finally {
            if (pinned == 0) {
                gpu.free(flag);
            }
        }
        return cleared(MemorySegment.ofAddress(pinned).reinterpret(BYTES), flag);
    }

    private Slot cleared(MemorySegment record, long flag) {
        gpu.fill(flag, (byte) 0, FLAG_BYTES, stream);
        record.fill((byte) 0).set(ValueLayout.JAVA_LONG, BROKEN, flag);
        return new Slot(Thread.currentThread(), record, flag, new HashMap<>(), new Registered[REMEMBERED], new int[1],
                new AtomicInteger());
    }

    /**
     * Reserves this thread's slot for the kernels of a captured graph, which may outlive the thread.
     *
     * @return the action that releases the slot, to run when the graph is closed
     */
    Runnable hold() {
        AtomicInteger graphs = slot().graphs;
        graphs.incrementAndGet();
        return graphs::decrementAndGet;
    }

    /** Returns the address of 8 bytes of pinned memory, for a number that this thread reads back. */
    long answer() {
        return slot().record.address() + ANSWER;
    }

    /** Returns the number of an operation for {@link Launch#fault}. Negative indices count from the end. */
    int register(Op op, long size, Tensor... operands) {
        return register(op, -size, size - 1, operands);
    }

    /** Returns the number of an operation whose indices are between {@code min} and {@code max}. */
    int register(Op op, long min, long max, Tensor... operands) {
        Slot slot = slot();
        Subject subject = new Subject(op, min, max, Arrays.stream(operands).map(Tensor::spec).toList());
        Registered known = slot.known.get(subject);
        if (known == null) {
            known = new Registered(slot.count[0]++, subject);
            int at = Math.floorMod(known.number, REMEMBERED);
            if (slot.recent[at] != null) {
                slot.known.remove(slot.recent[at].subject);
            }
            slot.recent[at] = known;
            slot.known.put(subject, known);
        }
        return known.number;
    }

    /** Returns the address of this thread's record. */
    long address() {
        return slot().record.address();
    }

    /**
     * Returns the address of this thread's flag in device memory, or 0 if the thread has not launched any kernel yet.
     */
    long flag() {
        Slot slot = mine.get();
        return slot == null ? 0 : slot.flag;
    }

    /** Throws if a kernel of this thread has met a bad index since the last call. All its kernels must be done. */
    void check() {
        Slot slot = mine.get();
        if (slot == null || slot.record.get(ValueLayout.JAVA_INT, 0) == 0) {
            return;
        }
        int number = slot.record.get(ValueLayout.JAVA_INT, OPERATION);
        long index = slot.record.get(ValueLayout.JAVA_LONG, INDEX);
        long position = slot.record.get(ValueLayout.JAVA_LONG, POSITION);
        slot.record.set(ValueLayout.JAVA_INT, 0, 0);
        gpu.fill(slot.flag, (byte) 0, FLAG_BYTES, stream);
        String found = "index " + index + " at position " + position;
        Registered registered = slot.recent[Math.floorMod(number, REMEMBERED)];
        if (registered.number != number) {
            throw new TensorException(TensorException.Problem.INDEX, "an earlier operation", List.of(),
                    found + " is out of range", "set CUDA_LAUNCH_BLOCKING=1 to find the operation");
        }
        Subject subject = registered.subject;
        throw new TensorException(TensorException.Problem.INDEX, subject.op.name(), subject.operands,
                found + " must lie between " + subject.min + " and " + subject.max, "correct the index");
    }
}
