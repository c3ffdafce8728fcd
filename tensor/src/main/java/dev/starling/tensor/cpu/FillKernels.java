package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.Fill;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link Fill} operations. */
final class FillKernels {
    private static final long GRAIN = 1 << 18;

    private FillKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Fill op, Spec output) {
        return switch (op) {
            case Fill.Full f -> {
                Tensor y = Storage.allocate(output);
                full(y.address(), output, f.value());
                yield new Tensor[] {y};
            }
            case Fill.Range _ -> null;
        };
    }

    private static void full(long address, Spec spec, double value) {
        long bytes = spec.bytes();
        if (bytes == 0) {
            return;
        }
        HostMemory.putDouble(spec.dtype(), address, value);
        if (value == 0 && 1 / value > 0) {
            new RangeWork(bytes, GRAIN) {
                @Override
                public void run(long from, long to) {
                    ALL.asSlice(address + from, to - from).fill((byte) 0);
                }
            }.run();
            return;
        }
        long done = spec.dtype().bytes();
        while (done < bytes) {
            long n = Math.min(Math.min(done, GRAIN), bytes - done);
            MemorySegment.copy(ALL, address, ALL, address + done, n);
            done += n;
        }
    }
}
