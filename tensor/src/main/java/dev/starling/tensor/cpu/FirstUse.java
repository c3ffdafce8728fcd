package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.gemm.Gemm;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.FormulaExpression;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.cpu.rows.FiniteScan;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.op.Activation;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Objects;

/**
 * Loads what most first steps wait for, on a thread of its own, while the application makes its first tensors. The JVM
 * loads classes and links lambdas at their first use, which is more than half of a small network's first step; oneDNN
 * takes a tenth of a second.
 */
final class FirstUse {
    private static final int SIDE = 16;

    private FirstUse() { }

    /** Starts the thread, which ends by itself. What it cannot load fails again where it is used, with a reason. */
    static void prepare() {
        try {
            Thread.ofPlatform().daemon().name("starling-first-use").start(() -> {
                try {
                    run();
                } catch (Throwable e) {
                    logFailure(e);
                }
            });
        } catch (OutOfMemoryError e) {
            // The system permits no more threads; the first step prepares what it needs.
            logFailure(e);
        }
    }

    private static void logFailure(Throwable e) {
        System.getLogger("dev.starling.tensor").log(System.Logger.Level.DEBUG, "cannot prepare kernels", e);
    }

    /** Computes a few values in memory of its own: a product in each way, loops over elements and rows. */
    static void run() {
        try (Arena arena = Arena.ofConfined()) {
            long x = arena.allocate(4L * SIDE * SIDE, 64).address();
            long y = arena.allocate(4L * SIDE * SIDE, 64).address();
            if (OneDnn.supports(ElementType.F32)) {
                multiply(x, y, 1);
                if (Gemm.suits(SIDE, SIDE, SIDE, false, false)) {
                    multiply(x, y, SIDE);
                }
            }
            Expression relu = FormulaExpression.of(Activation.RELU.formula(), List.of(DType.F32), DType.F32);
            // A loop that exists already is found by comparing expressions, which links their methods.
            FusedLoop.of(Objects.requireNonNull(relu));
            Launch loop = Launch.of(FusedLoop.of(relu));
            loop.operand(0, x);
            loop.operand(1, y);
            loop.runFlat(SIDE);
            RowLoops.FASTEST.matrix().sum(x, SIDE);
            RowLoops.FASTEST.matrix().columnSums(x, 4 * SIDE, SIDE, SIDE, y);
            FiniteScan.isFinite(x, 4 * SIDE, DType.F32);
            RowLoops.FASTEST.softmax().logSums(x, y, 1, SIDE);
            RowLoops.FASTEST.softmax().expGradient(x, y, 0, x, 0, x, 1, SIDE);
        }
    }

    private static void multiply(long x, long y, long columns) {
        new Matmul(ElementType.F32, ElementType.F32, SIDE, columns, SIDE).left(x, SIDE, 1).right(x, columns, 1)
                .result(y, columns).run();
    }
}
