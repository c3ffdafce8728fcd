package dev.starling.tensor.cpu;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.FiniteScan;
import dev.starling.tensor.host.RangeWork;
import java.util.concurrent.atomic.AtomicBoolean;

/** Tests whether all elements of a tensor are finite; see {@link FiniteScan}. */
final class FiniteKernel {
    /** Bytes that justify a further thread. */
    private static final long GRAIN = 1 << 19;
    private static final long LINE = 64;

    private FiniteKernel() { }

    static boolean run(Tensor operand) {
        Tensor x = DenseLayout.isDense(operand) ? operand : Layout.dense(operand);
        try {
            long address = x.address();
            long bytes = x.spec().bytes();
            if (bytes <= GRAIN) {
                return FiniteScan.isFinite(address, bytes, x.dtype());
            }
            AtomicBoolean isFinite = new AtomicBoolean(true);
            new RangeWork(Math.ceilDiv(bytes, LINE), GRAIN / LINE) {
                @Override
                public void run(long from, long to) {
                    long begin = from * LINE;
                    if (!FiniteScan.isFinite(address + begin, Math.min(bytes, to * LINE) - begin, x.dtype())) {
                        isFinite.set(false);
                    }
                }
            }.run();
            return isFinite.get();
        } finally {
            Layout.release(x, operand);
        }
    }
}
