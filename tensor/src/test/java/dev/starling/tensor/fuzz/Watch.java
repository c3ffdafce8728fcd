package dev.starling.tensor.fuzz;

import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import java.lang.foreign.MemorySegment;

/**
 * An interceptor that fills the memory of results before a kernel writes it, so that unwritten elements are detected,
 * and compares each operation with the reference device.
 */
final class Watch implements Interceptor {
    /** More bytes than a case needs; larger requests are not run. */
    private static final long MAX_BYTES = 4 << 20;

    /** A case requested more memory than it may use. */
    static final class TooLarge extends Error {
        private static final long serialVersionUID = 1L;

        TooLarge() {
            super("a result of more than " + MAX_BYTES + " bytes", null, false, false);
        }
    }

    private final byte poison;
    private final boolean compares;
    /** The first difference, or {@code null}. */
    String difference;
    int operations;

    Watch(int poison, boolean compares) {
        this.poison = (byte) poison;
        this.compares = compares;
    }

    @Override
    public void onOperation(Op op, Tensor[] inputs, Tensor[] outputs) {
        operations++;
        if (!compares || difference != null || op instanceof Update) {
            return;
        }
        for (Tensor t : outputs) {
            if (t.count() > MAX_BYTES) {
                throw new TooLarge();
            }
        }
        Interceptor.replace(Interceptor.NONE);
        try {
            difference = Recorder.with(Recorder.NONE, () -> Oracle.difference(op, inputs, outputs));
        } catch (RuntimeException e) {
            difference = "the reference device refuses " + op + ": " + e;
        } finally {
            Interceptor.replace(this);
        }
    }

    @Override
    public Tensor allocate(Spec spec, long[] strides) {
        if (spec.shape().count() > MAX_BYTES / spec.dtype().bytes()) {
            throw new TooLarge();
        }
        Interceptor.replace(Interceptor.NONE);
        try {
            Tensor tensor = Storage.allocate(spec, strides);
            MemorySegment memory = HostMemory.ALL.asSlice(tensor.address(), spec.bytes());
            memory.fill(poison);
            return tensor;
        } finally {
            Interceptor.replace(this);
        }
    }
}
