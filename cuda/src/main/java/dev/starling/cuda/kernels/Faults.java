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
 * Where kernels leave the first index out of range that they meet, one place for each thread that launches, which goes
 * to another when the thread has ended: a record in pinned memory, the host's side of the struct {@code FaultRecord} in
 * {@code prelude.cuh}, which the thread reads when it waits for the device anyway, and a flag in the device's memory,
 * at which its guarded updates look. Nobody waits for the sake of an index.
 */
final class Faults {
    /** How many operations are remembered for the message; those of a training loop are few, and come again. */
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
    private final ThreadLocal<Place> mine = new ThreadLocal<>();
    /** All places; guarded by itself. */
    private final List<Place> places = new ArrayList<>();

    /** What an index can be out of range for. */
    private record Subject(Op op, long least, long most, List<Spec> operands) { }

    private record Noted(int number, Subject subject) { }

    /** {@code graphs} counts those that write there. */
    private record Place(Thread owner, MemorySegment record, long flag, Map<Subject, Noted> known, Noted[] noted,
            int[] count, AtomicInteger graphs) { }

    Faults(Gpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = stream;
    }

    private Place place() {
        Place place = mine.get();
        if (place == null) {
            synchronized (places) {
                place = next();
                places.add(place);
            }
            mine.set(place);
        }
        return place;
    }

    /** Returns a new place, in the memory of one that nobody has any more if there is one. */
    private Place next() {
        for (int i = 0; i < places.size(); i++) {
            Place left = places.get(i);
            if (!left.owner.isAlive() && left.graphs.get() == 0) {
                Waits.synchronize(gpu, stream, "kernels of a thread that has ended");
                places.remove(i);
                return cleared(left.record, left.flag);
            }
        }
        long flag = gpu.allocate(FLAG_BYTES);
        if (flag == 0) {
            gpu.trim();
            flag = gpu.allocate(FLAG_BYTES);
        }
        if (flag == 0) {
            throw new TensorException(TensorException.Problem.MEMORY, "index check", List.of(),
                    "the device has not " + FLAG_BYTES + " bytes left", "close tensors, or use a smaller batch");
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

    private Place cleared(MemorySegment record, long flag) {
        gpu.fill(flag, (byte) 0, FLAG_BYTES, stream);
        record.fill((byte) 0).set(ValueLayout.JAVA_LONG, BROKEN, flag);
        return new Place(Thread.currentThread(), record, flag, new HashMap<>(), new Noted[REMEMBERED], new int[1],
                new AtomicInteger());
    }

    /**
     * Makes this thread's place ready for kernels that are taken down as a graph, which outlives the thread perhaps.
     *
     * @return to be run when the graph is no more
     */
    Runnable hold() {
        AtomicInteger graphs = place().graphs;
        graphs.incrementAndGet();
        return graphs::decrementAndGet;
    }

    /** Returns the address of 8 bytes of pinned memory, for a number that this thread waits for. */
    long answer() {
        return place().record.address() + ANSWER;
    }

    /** Returns the number of an operation, for {@link Launch#fault}; indices may be counted from the end. */
    int note(Op op, long size, Tensor... operands) {
        return note(op, -size, size - 1, operands);
    }

    /** The same for indices between {@code least} and {@code most}. */
    int note(Op op, long least, long most, Tensor... operands) {
        Place place = place();
        Subject subject = new Subject(op, least, most, Arrays.stream(operands).map(Tensor::spec).toList());
        Noted known = place.known.get(subject);
        if (known == null) {
            known = new Noted(place.count[0]++, subject);
            int at = Math.floorMod(known.number, REMEMBERED);
            if (place.noted[at] != null) {
                place.known.remove(place.noted[at].subject);
            }
            place.noted[at] = known;
            place.known.put(subject, known);
        }
        return known.number;
    }

    /** Returns the address of this thread's record. */
    long address() {
        return place().record.address();
    }

    /** Returns the address of this thread's flag in the device's memory, 0 as long as it has launched nothing. */
    long flag() {
        Place place = mine.get();
        return place == null ? 0 : place.flag;
    }

    /** Throws if one of this thread's kernels, all of which are done, has met a bad index since this was last asked. */
    void check() {
        Place place = mine.get();
        if (place == null || place.record.get(ValueLayout.JAVA_INT, 0) == 0) {
            return;
        }
        int number = place.record.get(ValueLayout.JAVA_INT, OPERATION);
        long index = place.record.get(ValueLayout.JAVA_LONG, INDEX);
        long position = place.record.get(ValueLayout.JAVA_LONG, POSITION);
        place.record.set(ValueLayout.JAVA_INT, 0, 0);
        gpu.fill(place.flag, (byte) 0, FLAG_BYTES, stream);
        String found = "index " + index + " at position " + position;
        Noted noted = place.noted[Math.floorMod(number, REMEMBERED)];
        if (noted.number != number) {
            throw new TensorException(TensorException.Problem.INDEX, "an earlier operation", List.of(),
                    found + " is out of range", "set CUDA_LAUNCH_BLOCKING=1 to learn of which operation");
        }
        Subject subject = noted.subject;
        throw new TensorException(TensorException.Problem.INDEX, subject.op.name(), subject.operands,
                found + " must lie between " + subject.least + " and " + subject.most, "correct the index");
    }
}
