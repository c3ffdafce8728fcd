package dev.starling.cuda.dnn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_EXECUTION_FAILED_CUDART;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_NOT_SUPPORTED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.emulated.LogCapture;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.ReductionKernels;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemoryUse;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** The life of plans: those that fail, those that are compared, and eviction. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class CudnnGraphsTest {
    /** The search plans with two of the fake engines for f32, one of which fails. */
    private static final int PLANNED = 2;
    private static final int MAX_PLANS = 4;

    private final Gpu gpu = Emulation.gpu();
    private final Memory allocator = new Memory();
    private final Workspaces memory = new Workspaces(allocator);
    private final Cudnn cudnn = new Cudnn(gpu, gpu.stream(), memory);
    private final MemorySegment operands = Arena.ofAuto().allocate(1 << 12, 256);
    private final LogCapture log = new LogCapture();

    /** Allocates host memory, which the emulated device uses. */
    private static final class Memory implements Allocator {
        private int trims;
        /** How many further requests fail. */
        private int failures;

        @Override
        public Block allocate(long bytes) {
            if (failures > 0) {
                failures--;
                throw new TensorException(TensorException.Problem.MEMORY, "allocate", List.of(), "no memory", "");
            }
            return new Block(Arena.global().allocate(bytes, 256).address(), bytes);
        }

        @Override
        public void free(Block block) { }

        @Override
        public void trim() {
            trims++;
        }

        @Override
        public MemoryUse use() {
            return new MemoryUse(0, 0, 0, 0);
        }
    }

    @AfterEach
    void libraryReportsNoMisuse() {
        log.close();
        FakeLibraries.failToPlan(0, 0);
        FakeLibraries.failToExecute(0, 0);
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
    }

    private CudnnGraphs graphs(String... properties) {
        assertThat(cudnn.isOpen("others compute")).isTrue();
        return new CudnnGraphs(cudnn, config(properties), "others compute", MAX_PLANS);
    }

    private static CudaConfig config(String... properties) {
        return CudaConfig.of(name -> Arrays.stream(properties).filter(p -> p.startsWith(name + "=")).findAny()
                .map(p -> p.substring(name.length() + 1)).orElse(null));
    }

    /** Convolves an image of 4 channels, {@code side} wide and all 3, with a weight of 2; returns the sum, or NaN. */
    private float run(CudnnGraphs graphs, DType type, int side, boolean biased) {
        Shape image = Shape.of(1, 4, side);
        CudnnConvolution.Call call = new CudnnConvolution.Call(new Convolution.Conv(
                Convolution.Geometry.of(1, 1, 0, 1, 1), Epilogue.NONE), biased, type, image, Shape.of(4, 4, 1), image);
        Supplier<Graph> graph = () -> CudnnConvolution.graph(call);
        long x = operands.address();
        MemorySegment.ofAddress(x).reinterpret(512).fill((byte) 0);
        if (type == DType.F32) {
            operands.set(ValueLayout.JAVA_FLOAT, 0, 3f);
            operands.set(ValueLayout.JAVA_FLOAT, 512, 2f);
        }
        long[] addresses = biased ? new long[] {x, x + 512, x + 1024, x + 2048} : new long[] {x, x + 512, x + 1024};
        Answer answer = graphs.run(call, CudnnConvolution.constraints(type == DType.F32, true), graph, addresses);
        return answer.isHandled() ? operands.get(ValueLayout.JAVA_FLOAT, 1024) : Float.NaN;
    }

    private float run(CudnnGraphs graphs, int side) {
        return run(graphs, DType.F32, side, false);
    }

    @Test
    void plansAgainWhenMemoryIsFreed() {
        CudnnGraphs graphs = graphs();
        FakeLibraries.failToPlan(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, PLANNED);
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(allocator.trims).isEqualTo(1);
        assertThat(log.warnings()).isEmpty();
    }

    /** The engine that found no memory may be the better one. */
    @Test
    void plansAgainWhenOnlyTheFirstEngineFindsNoMemory() {
        CudnnGraphs graphs = graphs();
        long before = FakeLibraries.planned();
        FakeLibraries.failToPlan(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 1);
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(FakeLibraries.planned() - before).isEqualTo(2 * PLANNED);
    }

    @Test
    void triesAgainAtTheNextCallAndLogsOnce() {
        CudnnGraphs graphs = graphs();
        FakeLibraries.failToPlan(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, 4 * PLANNED);
        assertThat(run(graphs, 5)).isNaN();
        assertThat(run(graphs, 6)).isNaN();
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(run(graphs, 6)).isEqualTo(6);
        assertThat(log.warnings()).singleElement().asString().contains("status 1008", "the last error",
                "others compute", "install all libraries of one version of cuDNN");
    }

    @Test
    void triesEverLessOften() {
        CudnnGraphs graphs = graphs();
        FakeLibraries.failToPlan(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, Integer.MAX_VALUE);
        long before = FakeLibraries.planned();
        for (int i = 0; i < 10; i++) {
            assertThat(run(graphs, 5)).isNaN();
        }
        assertThat(FakeLibraries.planned() - before).as("tries at calls 1, 2, 4 and 8, two each")
                .isEqualTo(4 * 2 * PLANNED);
        assertThat(log.warnings()).singleElement().asString().contains("status 4004");
    }

    /** The library loads a kernel at its first use, and may find no memory for it. */
    @Test
    void runsAgainWhenMemoryIsFreed() {
        CudnnGraphs graphs = graphs();
        FakeLibraries.failToExecute(CUDNN_STATUS_EXECUTION_FAILED_CUDART, 1);
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(allocator.trims).isEqualTo(1);
        assertThat(log.warnings()).isEmpty();
    }

    @Test
    void keepsAPlanThatFailsForALaterCall() {
        CudnnGraphs graphs = graphs();
        FakeLibraries.failToExecute(CUDNN_STATUS_EXECUTION_FAILED_CUDART, 4);
        assertThat(run(graphs, 5)).isNaN();
        long planned = FakeLibraries.planned();
        assertThat(run(graphs, 5)).isNaN();
        assertThat(run(graphs, 5)).as("a call between attempts").isNaN();
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(FakeLibraries.planned()).isEqualTo(planned);
        assertThat(log.warnings()).singleElement().asString().contains("status 5003", "others compute",
                "leave more of the GPU's memory free");
    }

    @Test
    void leavesACallToOthersWhileThereIsNoMemoryForItsWorkspace() {
        CudnnGraphs graphs = graphs();
        allocator.failures = 2;
        assertThat(run(graphs, 5)).isNaN();
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(log.warnings()).singleElement().asString().contains("status 4004", "others compute",
                "leave more of the GPU's memory free");
    }

    /** A comparison asks for more memory than the engine that the library would use without one. */
    @Test
    void comparesOnlyEnginesWithMemoryForTheirWorkspace() {
        CudnnGraphs graphs = graphs("starling.cuda.autotune=true");
        long before = FakeLibraries.computed();
        allocator.failures = 2;
        assertThat(run(graphs, DType.BF16, 5, false)).isNotNaN();
        assertThat(FakeLibraries.computed() - before).as("one engine, four times, and the call").isEqualTo(4 + 1);
        assertThat(log.warnings()).isEmpty();
    }

    @Test
    void comparesAgainIfNoPlanCanRun() {
        CudnnGraphs graphs = graphs("starling.cuda.autotune=true");
        long before = FakeLibraries.descriptors();
        FakeLibraries.failToExecute(CUDNN_STATUS_EXECUTION_FAILED_CUDART, 4);
        assertThat(run(graphs, DType.BF16, 5, false)).as("two engines, twice each").isNaN();
        assertThat(FakeLibraries.descriptors()).isEqualTo(before);
        assertThat(run(graphs, DType.BF16, 5, false)).isNotNaN();
    }

    @Test
    void doesNotTryAgainIfThereIsNoEngine() {
        CudnnGraphs graphs = graphs();
        FakeLibraries.failToPlan(CUDNN_STATUS_NOT_SUPPORTED, PLANNED);
        long before = FakeLibraries.planned();
        assertThat(run(graphs, 5)).isNaN();
        assertThat(run(graphs, 5)).isNaN();
        assertThat(FakeLibraries.planned() - before).isEqualTo(PLANNED);
        assertThat(run(graphs, DType.F16, 5, true)).isNaN();
        assertThat(log.warnings()).singleElement().asString().contains("status 3000", "others compute");
    }

    @Test
    void evictsTheLeastRecentlyUsed() {
        CudnnGraphs graphs = graphs();
        long before = FakeLibraries.descriptors();
        for (int side = 1; side <= MAX_PLANS; side++) {
            run(graphs, side);
        }
        long full = FakeLibraries.descriptors() - before;
        for (int side = MAX_PLANS + 1; side <= 5 * MAX_PLANS; side++) {
            assertThat(run(graphs, side)).isEqualTo(6);
            assertThat(FakeLibraries.descriptors() - before).isLessThanOrEqualTo(full);
        }
        long planned = FakeLibraries.planned();
        assertThat(run(graphs, 5 * MAX_PLANS)).isEqualTo(6);
        assertThat(FakeLibraries.planned()).as("the last one is kept").isEqualTo(planned);
        assertThat(run(graphs, 1)).isEqualTo(6);
        assertThat(FakeLibraries.planned()).as("the first one is not").isEqualTo(planned + PLANNED);
    }

    @Test
    void keepsThePlansOfAProgram() {
        CudnnGraphs graphs = graphs();
        run(graphs, 1);
        memory.beginCapture();
        run(graphs, 1);
        Runnable release = memory.endCapture();
        runOthers(graphs);
        long planned = FakeLibraries.planned();
        assertThat(run(graphs, 1)).isEqualTo(6);
        assertThat(FakeLibraries.planned()).isEqualTo(planned);
        release.run();
        runOthers(graphs);
        planned = FakeLibraries.planned();
        assertThat(run(graphs, 1)).isEqualTo(6);
        assertThat(FakeLibraries.planned()).as("no longer than the program").isEqualTo(planned + PLANNED);
    }

    private void runOthers(CudnnGraphs graphs) {
        for (int side = 2; side <= 3 * MAX_PLANS; side++) {
            run(graphs, side);
        }
    }

    @Test
    void comparesEnginesUntilTheTimeLimit() {
        double seconds = PlanningTime.seconds();
        int count = PlanningTime.graphs();
        long descriptors = FakeLibraries.descriptors();
        long before = FakeLibraries.computed();
        run(graphs("starling.cuda.autotune=true"), DType.BF16, 5, false);
        assertThat(FakeLibraries.computed() - before).as("two engines, four times each, and the call")
                .isEqualTo(2 * 4 + 1);
        assertThat(PlanningTime.seconds()).isGreaterThan(seconds);
        assertThat(PlanningTime.graphs()).isEqualTo(count + 1);
        long compared = FakeLibraries.descriptors() - descriptors;
        before = FakeLibraries.computed();
        descriptors = FakeLibraries.descriptors();
        run(graphs("starling.cuda.autotune=true", "starling.cuda.autotune.seconds=0"), DType.BF16, 5, false);
        assertThat(FakeLibraries.computed() - before).isEqualTo(1);
        assertThat(compared).as("the slower one is destroyed").isEqualTo(
                FakeLibraries.descriptors() - descriptors);
    }

    /** Convolves a pixel of 4 channels, or declines. */
    private Answer convolve(Cudnn library, int groups) {
        Launcher launcher = new Launcher(gpu, new KernelCompiler(gpu.compiler(), gpu.architecture()));
        try (Scope scope = Scope.open()) {
            Tensor[] in = {Tensor.ones(1, 4, 1), Tensor.ones(4, 4 / groups, 1)};
            return new CudnnConvolution(library, launcher, new ReductionKernels(launcher), config()).compute(
                    new Convolution.Conv(Convolution.Geometry.of(1, 1, 0, 1, groups), Epilogue.NONE), in,
                    new Tensor[] {Tensor.zeros(1, 4, 1)});
        }
    }

    /** Returns the size of the library's reserve for a small layer, 0 if the library is not used. */
    private long reserve(Cudnn library) {
        try (Scope scope = Scope.open()) {
            return new CudnnRecurrence(library, null, config()).reserveBytes(new Recurrence.Lstm(false, true),
                    Tensor.ones(2, 3, 4).spec(), Tensor.ones(3, 5).spec(), Tensor.ones(3, 5).spec(),
                    Tensor.ones(20, 4).spec(), Tensor.ones(20, 5).spec());
        }
    }

    /** All families share the handle. */
    @Test
    void makesOneHandleAtFirstUse() {
        long before = FakeLibraries.handles();
        Cudnn other = new Cudnn(gpu, gpu.stream(), memory);
        assertThat(FakeLibraries.handles()).isEqualTo(before);
        assertThat(convolve(other, 1)).isEqualTo(Answer.HANDLED);
        assertThat(reserve(other)).isPositive();
        assertThat(FakeLibraries.handles()).isEqualTo(before + 1);
    }

    @Test
    void doesNotUseALibraryBuiltForAnotherCuda() {
        FakeLibraries.build(12080, 0);
        try {
            Cudnn other = new Cudnn(gpu, gpu.stream(), memory);
            assertThat(convolve(other, 1)).isEqualTo(new Answer.Declined("cuDNN is not open"));
            assertThat(reserve(other)).isZero();
            assertThat(log.warnings()).singleElement().asString().contains("cuDNN 9.19.0", "built for CUDA 12",
                    "for CUDA 13");
        } finally {
            FakeLibraries.build(13010, 0);
        }
    }

    @Test
    void declinesDepthwiseConvolutionsOfVersionsWithAFault() {
        assertThat(convolve(cudnn, 4)).isEqualTo(Answer.HANDLED);
        FakeLibraries.version(92301);
        try {
            Cudnn faulty = new Cudnn(gpu, gpu.stream(), memory);
            assertThat(convolve(faulty, 4)).isEqualTo(new Answer.Declined("cuDNN has a known fault"));
            assertThat(convolve(faulty, 2)).isEqualTo(Answer.HANDLED);
        } finally {
            FakeLibraries.version(91900);
        }
    }

    @Test
    void reportsALibraryTooOldForAttention() {
        FakeLibraries.version(90501);
        try (Scope scope = Scope.open()) {
            Tensor heads = Tensor.ones(1, 1, 9, 8).to(DType.BF16);
            Tensor[] out = {Tensor.zeros(1, 1, 9, 8).to(DType.BF16), Tensor.zeros(1, 1, 9)};
            assertThat(new CudnnAttention(cudnn, null, config()).compute(new Attention.ScaledDotProduct(1, false),
                    new Tensor[] {heads, heads, heads}, out).isHandled()).isFalse();
            assertThat(log.warnings()).singleElement().asString().contains("cuDNN 9.5.1", "too old for attention",
                    "cuDNN 9.10.2", "org.bytedeco:cuda-redist-cudnn");
        } finally {
            FakeLibraries.version(91900);
        }
    }
}
