package dev.starling.cuda.blas;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_ALLOC_FAILED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_SUPPORTED;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.PlayedDriver;
import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.cuda.emulated.Told;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** What becomes of algorithms: those that are not found, and those of which there are too many. */
@EnabledIf(value = "dev.starling.cuda.emulated.PlayedLibraries#arePossible",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class CublasLtTest {
    private static final int MOST = 4;

    private final Gpu gpu = Emulation.gpu();
    private final Gpu.Stream stream = gpu.stream();
    private final Workspaces memory = new Workspaces(null);
    private final CublasLt library = new CublasLt(gpu, stream, memory, MOST);
    private final MemorySegment operands = Arena.ofAuto().allocate(1 << 12, 256);
    private final Told told = new Told();

    @BeforeEach
    void opens() {
        assertThat(library.isOpen()).isTrue();
    }

    @AfterEach
    void libraryHadNothingToComplainOf() {
        told.close();
        PlayedLibraries.failToMultiply(0, 0);
        PlayedLibraries.hideNan(false);
        assertThat(PlayedLibraries.complaint()).isEmpty();
    }

    /** Multiplies 3 with 2, in the first summand of {@code k}; returns what came of it, or NaN. */
    private float run(int k) {
        operands.set(ValueLayout.JAVA_FLOAT, 0, 3f);
        return isRun(k, MatrixCall.After.NOTHING) ? operands.get(ValueLayout.JAVA_FLOAT, 2048) : Float.NaN;
    }

    /** Multiplies what is there with 2, in the first summand of {@code k}. */
    private boolean isRun(int k, MatrixCall.After after) {
        return isRun(library, k, after);
    }

    private boolean isRun(CublasLt asked, int k, MatrixCall.After after) {
        operands.asSlice(Float.BYTES).fill((byte) 0);
        operands.set(ValueLayout.JAVA_FLOAT, 1024, 2f);
        long a = operands.address();
        return asked.multiply(call(k, after), a, a + 1024, 0, 0, a + 2048);
    }

    private static MatrixCall call(int k, MatrixCall.After after) {
        return new MatrixCall(DType.F32, 1, 1, k, new MatrixCall.Operand(false, 1, 0),
                new MatrixCall.Operand(false, k, 0), 1, 1, false, after, 256);
    }

    @Test
    void asksAgainAfterAFailureThatMayPass() {
        PlayedLibraries.failToMultiply(CUBLAS_STATUS_ALLOC_FAILED, 2);
        assertThat(run(3)).isNaN();
        assertThat(run(4)).isNaN();
        assertThat(run(3)).isEqualTo(6);
        assertThat(run(4)).isEqualTo(6);
        assertThat(told.warnings()).singleElement().asString().contains("status 3", "until there is one");
    }

    @Test
    void doesNotAskAgainForWhatIsNotOffered() {
        PlayedLibraries.failToMultiply(CUBLAS_STATUS_NOT_SUPPORTED, 1);
        assertThat(run(3)).isNaN();
        assertThat(run(3)).isNaN();
        assertThat(told.warnings()).singleElement().asString().contains("status 15", "which is slower");
    }

    @Test
    void takesReluThatLetsNanPass() {
        for (float x : new float[] {3, -3, Float.NaN}) {
            operands.set(ValueLayout.JAVA_FLOAT, 0, x);
            assertThat(isRun(2, MatrixCall.After.RELU)).isTrue();
            assertThat(operands.get(ValueLayout.JAVA_FLOAT, 2048)).isEqualTo((Float) Math.max(2 * x, 0));
        }
    }

    @Test
    void doesNotTakeReluThatHidesNan() {
        PlayedLibraries.hideNan(true);
        assertThat(isRun(2, MatrixCall.After.RELU)).isFalse();
        PlayedLibraries.hideNan(false);
        assertThat(isRun(2, MatrixCall.After.RELU)).as("once and for all").isFalse();
        assertThat(run(2)).as("without it").isEqualTo(6);
    }

    @Test
    void doesNotTryReluWhileAGraphIsMade() {
        memory.beginKeeping();
        assertThat(isRun(2, MatrixCall.After.RELU)).isFalse();
        memory.endKeeping();
        assertThat(isRun(2, MatrixCall.After.RELU)).isTrue();
        memory.beginKeeping();
        assertThat(isRun(2, MatrixCall.After.RELU)).isTrue();
    }

    /** The property is read when the library is made. */
    @Test
    void leavesOutEpilogues() {
        System.setProperty("starling.cuda.epilogues.omitted", "relu, column_sums");
        try {
            CublasLt without = new CublasLt(gpu, stream, memory, MOST);
            assertThat(without.takes(DType.F32)).isTrue();
            assertThat(isRun(without, 2, MatrixCall.After.RELU)).isFalse();
            assertThat(isRun(without, 2, MatrixCall.After.NOTHING)).isTrue();
            System.setProperty("starling.cuda.epilogues.omitted", "nothing");
            assertThatThrownBy(() -> new CublasLt(gpu, stream, memory, MOST))
                    .isInstanceOf(IllegalArgumentException.class).hasMessageContaining("column_sums");
        } finally {
            System.clearProperty("starling.cuda.epilogues.omitted");
        }
    }

    /** A virtual thread that waits goes on in a system thread where another one has used another GPU meanwhile. */
    @Test
    void multipliesOnItsOwnGpuWhereLogsMakeThreadsWait() throws Exception {
        Logger logger = Logger.getLogger("dev.starling.cuda");
        Level level = logger.getLevel();
        Handler waiting = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                LockSupport.parkNanos(50_000);
            }

            @Override
            public void flush() { }

            @Override
            public void close() { }
        };
        PlayedDriver.devices(2);
        logger.setLevel(Level.FINE);
        logger.addHandler(waiting);
        PlayedLibraries.failToMultiply(CUBLAS_STATUS_NOT_SUPPORTED, 40);
        try {
            List<FutureTask<Void>> all = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                Gpu own = new NvidiaGpu(i % 2, Emulation.compiler());
                FutureTask<Void> task = new FutureTask<>(() -> multiplyOn(own), null);
                Thread.ofVirtual().start(task);
                all.add(task);
            }
            for (FutureTask<Void> each : all) {
                each.get();
            }
        } finally {
            logger.removeHandler(waiting);
            logger.setLevel(level);
            PlayedDriver.devices(0);
        }
    }

    private static void multiplyOn(Gpu own) {
        MemorySegment memory = Arena.ofAuto().allocate(1 << 12, 256);
        CublasLt asked = new CublasLt(own, own.stream(), new Workspaces(null), MOST);
        assertThat(asked.takes(DType.F32)).isTrue();
        for (int k = 1; k <= 20; k++) {
            memory.fill((byte) 0);
            memory.set(ValueLayout.JAVA_FLOAT, 0, 3f);
            memory.set(ValueLayout.JAVA_FLOAT, 1024, 2f);
            long a = memory.address();
            boolean done = asked.multiply(call(k, MatrixCall.After.NOTHING), a, a + 1024, 0, 0, a + 2048);
            own.synchronize(own.stream());
            assertThat(memory.get(ValueLayout.JAVA_FLOAT, 2048)).isEqualTo(done ? 6 : 0);
        }
    }

    @Test
    void givesBackWhatWasUsedLongestAgo() {
        long before = PlayedLibraries.products();
        for (int k = 1; k <= 5 * MOST; k++) {
            assertThat(run(k)).isEqualTo(6);
            assertThat(PlayedLibraries.products() - before).as("a product and three matrices each")
                    .isLessThanOrEqualTo(4 * MOST);
        }
        assertThat(PlayedLibraries.products() - before).isEqualTo(4 * MOST);
    }
}
