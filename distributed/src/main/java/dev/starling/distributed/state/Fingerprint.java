package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.WeightsDivergedException;
import dev.starling.nn.Parameter;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Compares the weights of ranks that take the same steps by checksums of 64 bits. A device whose memory the host cannot
 * access copies its weights to the host, one parameter after the other.
 */
public final class Fingerprint {
    private static final long FIRST = 0x9E3779B97F4A7C15L;
    private static final long FACTOR = 0xD6E8FEB86659FD93L;
    private static final int SHIFT = 32;
    private static final int LANES = 4;
    /** Checksums of parameters that ranks exchange at a time. */
    private static final int MAX_EXCHANGED = 2000;

    private Fingerprint() {
    }

    /**
     * Compares the weights of all ranks. Collective; waits.
     *
     * @return the exception to throw, on every rank, or {@code null} if all have the same weights
     */
    public static @Nullable WeightsDivergedException compare(Collectives collectives, TrainingState state,
            Duration timeout) {
        long[] own = checksums(state.optimizer().parameters());
        long all = FIRST;
        for (long each : own) {
            all = mix(all, each);
        }
        try (Arena arena = Arena.ofConfined()) {
            // The largest checksum and, of the complements, that of the smallest.
            MemorySegment extremes = arena.allocateFrom(ValueLayout.JAVA_LONG, all, ~all);
            collectives.allReduce(extremes, DType.I64, ReduceOp.MAX);
            if (extremes.get(ValueLayout.JAVA_LONG, 0) == ~extremes.get(ValueLayout.JAVA_LONG, Long.BYTES)) {
                return null;
            }
        }
        WeightsDivergedException difference = find(collectives, state, own);
        try {
            // All ranks learn of the difference before the first one leaves.
            collectives.barrier().await(timeout);
        } catch (DistributedException left) {
            difference.addSuppressed(left);
        }
        return difference;
    }

    /** Finds the first parameter that differs. */
    private static WeightsDivergedException find(Collectives collectives, TrainingState state, long[] own) {
        for (int from = 0; from < own.length; from += MAX_EXCHANGED) {
            int count = Math.min(MAX_EXCHANGED, own.length - from);
            ByteBuffer part = ByteBuffer.allocate(count * Long.BYTES);
            part.asLongBuffer().put(own, from, count);
            byte[][] parts = collectives.exchange(part.array());
            for (int i = 0; i < count; i++) {
                List<Long> sums = new ArrayList<>();
                for (byte[] each : parts) {
                    sums.add(ByteBuffer.wrap(each).getLong(i * Long.BYTES));
                }
                if (sums.stream().distinct().count() > 1) {
                    return difference(state, from + i, sums);
                }
            }
        }
        return new WeightsDivergedException(-1, state.step(), "none", "after step " + state.step() + " the weights of "
                + "ranks differ, but those of no parameter do; report this as a defect");
    }

    private static WeightsDivergedException difference(TrainingState state, int parameter, List<Long> sums) {
        Map<Long, Integer> counts = new HashMap<>();
        sums.forEach(each -> counts.merge(each, 1, Integer::sum));
        long usual = sums.getFirst();
        for (long each : sums) {
            usual = counts.getOrDefault(each, 0) > counts.getOrDefault(usual, 0) ? each : usual;
        }
        List<Integer> others = new ArrayList<>();
        for (int rank = 0; rank < sums.size(); rank++) {
            if (sums.get(rank) != usual) {
                others.add(rank);
            }
        }
        String path = state.optimizer().path(parameter);
        return new WeightsDivergedException(others.getFirst(), state.step(), path, "after step " + state.step()
                + " the weights of rank" + (others.size() > 1 ? "s " : " ") + String.join(", ", others.stream()
                .map(String::valueOf).toList()) + " of " + sums.size() + " differ from those of the others, first in "
                + path + "; change weights between steps in the same way on all ranks, check the memory of that host, "
                + "and resume from a checkpoint");
    }

    private static long[] checksums(List<Parameter> parameters) {
        long[] sums = new long[parameters.size()];
        for (int i = 0; i < sums.length; i++) {
            try (Scope scope = Scope.open("fingerprint")) {
                Tensor value = parameters.get(i).value().to(Device.cpu()).contiguous();
                sums[i] = of(value.readOnlySegment().asSlice(0, value.spec().bytes()));
            }
        }
        return sums;
    }

    /** Returns a checksum of bytes, which depends on their order. */
    static long of(MemorySegment bytes) {
        long a = FIRST;
        long b = FIRST + 1;
        long c = FIRST + 2;
        long d = FIRST + 3;
        long at = 0;
        // Four independent lanes, because each step of one waits for a multiplication.
        for (long end = bytes.byteSize() - LANES * Long.BYTES; at <= end; at += LANES * Long.BYTES) {
            a = mix(a, bytes.get(ValueLayout.JAVA_LONG_UNALIGNED, at));
            b = mix(b, bytes.get(ValueLayout.JAVA_LONG_UNALIGNED, at + Long.BYTES));
            c = mix(c, bytes.get(ValueLayout.JAVA_LONG_UNALIGNED, at + 2 * Long.BYTES));
            d = mix(d, bytes.get(ValueLayout.JAVA_LONG_UNALIGNED, at + 3 * Long.BYTES));
        }
        for (; at < bytes.byteSize(); at++) {
            a = mix(a, bytes.get(ValueLayout.JAVA_BYTE, at));
        }
        return mix(mix(mix(a, b), c), d);
    }

    private static long mix(long sum, long value) {
        long product = (sum ^ value) * FACTOR;
        // Without this, the highest bit of a value would act as one bit of the next value.
        return product ^ product >>> SHIFT;
    }
}
