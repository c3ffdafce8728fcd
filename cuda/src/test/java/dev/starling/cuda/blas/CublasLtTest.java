package dev.starling.cuda.blas;

import static org.assertj.core.api.Assertions.assertThat;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_ALLOC_FAILED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_EXECUTION_FAILED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_SUPPORTED;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.emulated.LogCapture;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.Multiplication;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.Allocator;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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

/** The life of algorithms: those that are not found or fail, and eviction. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class CublasLtTest {
    private static final int MAX_PLANS = 4;
    private static final CudaConfig DEFAULT = CudaConfig.of(name -> null);

    private final Gpu gpu = Emulation.gpu();
    private final Gpu.Stream stream = gpu.stream();
    private int trims;
    private final Allocator cache = (Allocator) Proxy.newProxyInstance(Allocator.class.getClassLoader(),
            new Class<?>[] {Allocator.class}, (proxy, method, arguments) -> {
                assertThat(method.getName()).isEqualTo("trim");
                trims++;
                return null;
            });
    private final Workspaces memory = new Workspaces(cache);
    private final CublasLt library = new CublasLt(gpu, stream, memory, DEFAULT, MAX_PLANS);
    private final MemorySegment operands = Arena.ofAuto().allocate(1 << 12, 256);
    private final LogCapture log = new LogCapture();

    @BeforeEach
    void opens() {
        assertThat(library.isOpen()).isTrue();
    }

    @AfterEach
    void libraryReportsNoMisuse() {
        log.close();
        FakeLibraries.failToMultiply(0, 0);
        FakeLibraries.failToRunProducts(0, 0);
        FakeLibraries.hideNan(false);
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
    }

    /** Multiplies 3 by 2 in the first of {@code k} summands; returns the result, or NaN. */
    private float run(int k) {
        operands.set(ValueLayout.JAVA_FLOAT, 0, 3f);
        return runs(k, ProductEpilogue.NOTHING) ? operands.get(ValueLayout.JAVA_FLOAT, 2048) : Float.NaN;
    }

    /** Multiplies the first operand's element by 2, in the first of {@code k} summands. */
    private boolean runs(int k, ProductEpilogue after) {
        return runs(library, k, after);
    }

    private boolean runs(CublasLt library, int k, ProductEpilogue after) {
        operands.asSlice(Float.BYTES).fill((byte) 0);
        operands.set(ValueLayout.JAVA_FLOAT, 1024, 2f);
        long a = operands.address();
        return library.multiply(call(k, after), a, a + 1024, 0, 0, a + 2048).isHandled();
    }

    private static MatrixCall call(int k, ProductEpilogue after) {
        return new MatrixCall(DType.F32, 1, 1, k, new MatrixCall.Operand(false, 1, 0),
                new MatrixCall.Operand(false, k, 0), 1, 1, false, after, 256);
    }

    @Test
    void opensAfterMemoryWasFreed() {
        CublasLt late = new CublasLt(gpu, stream, memory, DEFAULT, MAX_PLANS);
        FakeLibraries.failToOpenProducts(2);
        assertThat(late.isOpen()).isFalse();
        assertThat(late.isOpen()).isFalse();
        assertThat(late.isOpen()).as("a call between attempts").isFalse();
        assertThat(late.isOpen()).isTrue();
        assertThat(trims).isEqualTo(2);
    }

    /** The card is full when the workspace is requested, twice. */
    @Test
    void opensAfterMemoryForTheWorkspaceWasFreed() {
        int[] failures = {2};
        Gpu full = (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> method.getName().equals("allocate") && failures[0]-- > 0 ? 0L
                        : method.invoke(gpu, arguments));
        CublasLt late = new CublasLt(full, stream, memory, DEFAULT, MAX_PLANS);
        assertThat(late.isOpen()).isFalse();
        assertThat(log.warnings()).singleElement().asString().contains("later calls try again");
        assertThat(trims).isEqualTo(2);
        assertThat(late.isOpen()).isTrue();
    }

    /** The left operand's matrices are one, whose rows cannot be merged with the batch dimension. */
    @Test
    void declinesMoreProductsThanTheLibraryCanNumber() {
        Launcher launcher = new Launcher(gpu, new KernelCompiler(gpu.compiler(), gpu.architecture()));
        try (Scope scope = Scope.open()) {
            long many = 1L << 31;
            Device host = Device.reference();
            Tensor a = Device.with(host, () -> Tensor.zeros(2, 1)).expand(Shape.of(many, 2, 1));
            Tensor b = Device.with(host, () -> Tensor.zeros(1, 1));
            Multiplication product = new Multiplication(a, b, false, null, ProductEpilogue.NOTHING, null, a);
            assertThat(new CublasProducts(launcher, library).multiply(product)).isSameAs(Answer.TOO_LARGE);
        }
    }

    @Test
    void searchesAgainAfterMemoryWasFreed() {
        FakeLibraries.failToMultiply(CUBLAS_STATUS_ALLOC_FAILED, 1);
        assertThat(run(3)).isEqualTo(6);
        assertThat(trims).isEqualTo(1);
        assertThat(log.warnings()).isEmpty();
    }

    /** The library loads a kernel at its first use, and may find no memory for it. */
    @Test
    void multipliesAgainAfterMemoryWasFreed() {
        FakeLibraries.failToRunProducts(CUBLAS_STATUS_EXECUTION_FAILED, 1);
        assertThat(run(3)).isEqualTo(6);
        assertThat(trims).isEqualTo(1);
        assertThat(log.warnings()).isEmpty();
    }

    @Test
    void leavesAProductThatFailsToOthersUntilALaterCall() {
        FakeLibraries.failToRunProducts(CUBLAS_STATUS_EXECUTION_FAILED, 4);
        assertThat(run(3)).isNaN();
        assertThat(run(3)).isNaN();
        assertThat(run(3)).as("a call between attempts").isNaN();
        assertThat(run(3)).isEqualTo(6);
        assertThat(log.warnings()).singleElement().asString().contains("status 13", "until a later attempt succeeds");
    }

    @Test
    void triesAgainAfterATransientFailure() {
        FakeLibraries.failToMultiply(CUBLAS_STATUS_ALLOC_FAILED, 4);
        assertThat(run(3)).isNaN();
        assertThat(run(4)).isNaN();
        assertThat(run(3)).isEqualTo(6);
        assertThat(run(4)).isEqualTo(6);
        assertThat(log.warnings()).singleElement().asString().contains("status 3", "until a later attempt succeeds");
    }

    @Test
    void doesNotTryAgainForUnsupportedProducts() {
        FakeLibraries.failToMultiply(CUBLAS_STATUS_NOT_SUPPORTED, 1);
        assertThat(run(3)).isNaN();
        assertThat(run(3)).isNaN();
        assertThat(log.warnings()).singleElement().asString().contains("status 15", "which is slower");
    }

    @Test
    void usesReluThatPropagatesNan() {
        for (float x : new float[] {3, -3, Float.NaN}) {
            operands.set(ValueLayout.JAVA_FLOAT, 0, x);
            assertThat(runs(2, ProductEpilogue.RELU)).isTrue();
            assertThat(operands.get(ValueLayout.JAVA_FLOAT, 2048)).isEqualTo((Float) Math.max(2 * x, 0));
        }
    }

    @Test
    void doesNotUseReluThatHidesNan() {
        FakeLibraries.hideNan(true);
        assertThat(runs(2, ProductEpilogue.RELU)).isFalse();
        FakeLibraries.hideNan(false);
        assertThat(runs(2, ProductEpilogue.RELU)).as("permanently").isFalse();
        assertThat(run(2)).as("without it").isEqualTo(6);
    }

    @Test
    void doesNotUseReluThatCannotBeTested() {
        FakeLibraries.hideNan(true);
        FakeLibraries.failToRunProducts(CUBLAS_STATUS_EXECUTION_FAILED, 1);
        assertThat(runs(2, ProductEpilogue.RELU)).isFalse();
        FakeLibraries.hideNan(false);
        FakeLibraries.failToRunProducts(CUBLAS_STATUS_EXECUTION_FAILED, 2);
        assertThat(runs(3, ProductEpilogue.RELU)).isFalse();
        assertThat(runs(3, ProductEpilogue.RELU)).isTrue();
    }

    /** A driver may copy to memory that is not page-locked after the call has returned. */
    @Test
    void testsReluWhenTheResultHasArrived() {
        List<Runnable> queued = new ArrayList<>();
        Gpu late = (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("download")) {
                        queued.add(() -> gpu.download((long) arguments[0], (long) arguments[1], (long) arguments[2],
                                stream));
                        return null;
                    }
                    if (method.getName().equals("synchronize")) {
                        queued.forEach(Runnable::run);
                        queued.clear();
                    }
                    return method.invoke(gpu, arguments);
                });
        CublasLt other = new CublasLt(late, stream, memory, DEFAULT, MAX_PLANS);
        assertThat(other.isOpen()).isTrue();
        assertThat(runs(other, 2, ProductEpilogue.RELU)).isTrue();
        FakeLibraries.hideNan(true);
        assertThat(runs(other, 3, ProductEpilogue.RELU)).isFalse();
    }

    @Test
    void declinesInterleavedOperandsOnGpusWithAFault() {
        Gpu workstation = (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> method.getName().equals("architecture") ? "sm_120"
                        : method.invoke(gpu, arguments));
        CublasLt faulty = new CublasLt(workstation, stream, memory, DEFAULT, MAX_PLANS);
        assertThat(faulty.isOpen()).isTrue();
        long a = operands.address();
        for (long distance : new long[] {1, 4}) {
            MatrixCall call = new MatrixCall(DType.F32, 1, 1, 2, new MatrixCall.Operand(false, 2, distance),
                    new MatrixCall.Operand(false, 2, 2), 2, 1, false, ProductEpilogue.NOTHING, 256);
            assertThat(library.multiply(call, a, a + 1024, 0, 0, a + 2048).isHandled()).isTrue();
            assertThat(faulty.multiply(call, a, a + 1024, 0, 0, a + 2048).isHandled()).isEqualTo(distance == 4);
        }
    }

    @Test
    void doesNotTestReluDuringACapture() {
        memory.beginCapture();
        assertThat(runs(2, ProductEpilogue.RELU)).isFalse();
        memory.endCapture();
        assertThat(runs(2, ProductEpilogue.RELU)).isTrue();
        memory.beginCapture();
        assertThat(runs(2, ProductEpilogue.RELU)).isTrue();
    }

    @Test
    void omitsEpilogues() {
        CublasLt without = new CublasLt(gpu, stream, memory, CudaConfig.of(
                Map.of("starling.cuda.epilogues.omitted", "relu, column_sums")::get), MAX_PLANS);
        assertThat(without.supports(DType.F32)).isTrue();
        assertThat(runs(without, 2, ProductEpilogue.RELU)).isFalse();
        assertThat(runs(without, 2, ProductEpilogue.NOTHING)).isTrue();
    }

    /** A virtual thread that blocks may resume on a carrier that another thread has used with another GPU. */
    @Test
    void multipliesOnItsOwnGpuAlthoughLoggingBlocks() throws Exception {
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
        FakeDriver.devices(2);
        logger.setLevel(Level.FINE);
        logger.addHandler(waiting);
        FakeLibraries.failToMultiply(CUBLAS_STATUS_NOT_SUPPORTED, 40);
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
            FakeDriver.devices(0);
        }
    }

    private static void multiplyOn(Gpu own) {
        MemorySegment memory = Arena.ofAuto().allocate(1 << 12, 256);
        CublasLt library = new CublasLt(own, own.stream(), new Workspaces(null), DEFAULT, MAX_PLANS);
        assertThat(library.supports(DType.F32)).isTrue();
        for (int k = 1; k <= 20; k++) {
            memory.fill((byte) 0);
            memory.set(ValueLayout.JAVA_FLOAT, 0, 3f);
            memory.set(ValueLayout.JAVA_FLOAT, 1024, 2f);
            long a = memory.address();
            boolean done = library.multiply(call(k, ProductEpilogue.NOTHING), a, a + 1024, 0, 0, a + 2048)
                    .isHandled();
            own.synchronize(own.stream());
            assertThat(memory.get(ValueLayout.JAVA_FLOAT, 2048)).isEqualTo(done ? 6 : 0);
        }
    }

    @Test
    void evictsTheLeastRecentlyUsed() {
        long before = FakeLibraries.products();
        for (int k = 1; k <= 5 * MAX_PLANS; k++) {
            assertThat(run(k)).isEqualTo(6);
            assertThat(FakeLibraries.products() - before).as("a product and three matrices each")
                    .isLessThanOrEqualTo(4 * MAX_PLANS);
        }
        assertThat(FakeLibraries.products() - before).isEqualTo(4 * MAX_PLANS);
    }
}
