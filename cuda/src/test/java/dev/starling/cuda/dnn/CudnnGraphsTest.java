package dev.starling.cuda.dnn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_NOT_SUPPORTED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.cuda.emulated.Told;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.MemoryUse;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** What becomes of plans: those that fail, those that are compared, those of which there are too many. */
@EnabledIf(value = "dev.starling.cuda.emulated.PlayedLibraries#arePossible",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class CudnnGraphsTest {
    /** Of the played engines two are planned with for f32, of which one cannot be. */
    private static final int PLANNED = 2;
    private static final int MOST = 4;

    private final Gpu gpu = Emulation.gpu();
    private final Memory lent = new Memory();
    private final Workspaces memory = new Workspaces(lent);
    private final Cudnn cudnn = new Cudnn(gpu, gpu.stream(), memory);
    private final MemorySegment operands = Arena.ofAuto().allocate(1 << 12, 256);
    private final Told told = new Told();

    /** Of the host's, since the device is played. */
    private static final class Memory implements Allocator {
        private int trims;

        @Override
        public Block allocate(long bytes) {
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
    void libraryHadNothingToComplainOf() {
        told.close();
        PlayedLibraries.failToPlan(0, 0);
        assertThat(PlayedLibraries.complaint()).isEmpty();
    }

    private CudnnGraphs graphs() {
        assertThat(cudnn.isOpen("others compute")).isTrue();
        return new CudnnGraphs(cudnn, "others compute", MOST);
    }

    /** Convolves one image of 4 channels, {@code side} wide, with 1 of weight 2; returns what came of it, or NaN. */
    private float run(CudnnGraphs graphs, DType type, int side, boolean biased) {
        ConvolutionCall call = new ConvolutionCall(type, 1, 4, 1, side, 4, 1, 1, 1, side, 1, 1, 0, 0, 1, 1, 1);
        CudnnConvolver.Work work = new CudnnConvolver.Work(call, Graph.Pass.FORWARD, biased, false);
        Supplier<Graph> graph = () -> CudnnConvolver.graph(work);
        long x = operands.address();
        MemorySegment.ofAddress(x).reinterpret(512).fill((byte) 0);
        if (type == DType.F32) {
            operands.set(ValueLayout.JAVA_FLOAT, 0, 3f);
            operands.set(ValueLayout.JAVA_FLOAT, 512, 2f);
        }
        long[] addresses = biased ? new long[] {x, x + 512, x + 1024, x + 2048} : new long[] {x, x + 512, x + 1024};
        boolean done = graphs.run(work, CudnnConvolver.demands(type == DType.F32, true), graph, addresses);
        return done ? operands.get(ValueLayout.JAVA_FLOAT, 1024) : Float.NaN;
    }

    private float run(CudnnGraphs graphs, int side) {
        return run(graphs, DType.F32, side, false);
    }

    @Test
    void plansAgainWhenMemoryIsFreed() {
        CudnnGraphs graphs = graphs();
        PlayedLibraries.failToPlan(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, PLANNED);
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(lent.trims).isEqualTo(1);
        assertThat(told.warnings()).isEmpty();
    }

    /** A better engine may have been the one that found no memory. */
    @Test
    void plansAgainWhenOnlyTheFirstEngineFindsNoMemory() {
        CudnnGraphs graphs = graphs();
        long before = PlayedLibraries.planned();
        PlayedLibraries.failToPlan(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 1);
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(PlayedLibraries.planned() - before).isEqualTo(2 * PLANNED);
    }

    @Test
    void asksAgainAtTheNextCallAndTellsOnce() {
        CudnnGraphs graphs = graphs();
        PlayedLibraries.failToPlan(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, 4 * PLANNED);
        assertThat(run(graphs, 5)).isNaN();
        assertThat(run(graphs, 6)).isNaN();
        assertThat(run(graphs, 5)).isEqualTo(6);
        assertThat(run(graphs, 6)).isEqualTo(6);
        assertThat(told.warnings()).singleElement().asString().contains("status 1008", "told last", "others compute",
                "install all libraries of one version of cuDNN");
    }

    @Test
    void asksEverLessOften() {
        CudnnGraphs graphs = graphs();
        PlayedLibraries.failToPlan(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, Integer.MAX_VALUE);
        long before = PlayedLibraries.planned();
        for (int i = 0; i < 10; i++) {
            assertThat(run(graphs, 5)).isNaN();
        }
        assertThat(PlayedLibraries.planned() - before).as("tries at calls 1, 2, 4 and 8, two each")
                .isEqualTo(4 * 2 * PLANNED);
        assertThat(told.warnings()).singleElement().asString().contains("status 4004");
    }

    @Test
    void doesNotAskAgainWhereThereIsNoEngine() {
        CudnnGraphs graphs = graphs();
        PlayedLibraries.failToPlan(CUDNN_STATUS_NOT_SUPPORTED, PLANNED);
        long before = PlayedLibraries.planned();
        assertThat(run(graphs, 5)).isNaN();
        assertThat(run(graphs, 5)).isNaN();
        assertThat(PlayedLibraries.planned() - before).isEqualTo(PLANNED);
        assertThat(run(graphs, DType.F16, 5, true)).isNaN();
        assertThat(told.warnings()).singleElement().asString().contains("status 3000", "others compute");
    }

    @Test
    void givesBackWhatWasUsedLongestAgo() {
        CudnnGraphs graphs = graphs();
        long before = PlayedLibraries.descriptors();
        for (int side = 1; side <= MOST; side++) {
            run(graphs, side);
        }
        long full = PlayedLibraries.descriptors() - before;
        for (int side = MOST + 1; side <= 5 * MOST; side++) {
            assertThat(run(graphs, side)).isEqualTo(6);
            assertThat(PlayedLibraries.descriptors() - before).isLessThanOrEqualTo(full);
        }
        long planned = PlayedLibraries.planned();
        assertThat(run(graphs, 5 * MOST)).isEqualTo(6);
        assertThat(PlayedLibraries.planned()).as("the last one is kept").isEqualTo(planned);
        assertThat(run(graphs, 1)).isEqualTo(6);
        assertThat(PlayedLibraries.planned()).as("the first one is not").isEqualTo(planned + PLANNED);
    }

    @Test
    void keepsWhatAProgramRuns() {
        CudnnGraphs graphs = graphs();
        run(graphs, 1);
        memory.beginKeeping();
        run(graphs, 1);
        Runnable release = memory.endKeeping();
        runOthers(graphs);
        long planned = PlayedLibraries.planned();
        assertThat(run(graphs, 1)).isEqualTo(6);
        assertThat(PlayedLibraries.planned()).isEqualTo(planned);
        release.run();
        runOthers(graphs);
        planned = PlayedLibraries.planned();
        assertThat(run(graphs, 1)).isEqualTo(6);
        assertThat(PlayedLibraries.planned()).as("no longer than the program").isEqualTo(planned + PLANNED);
    }

    private void runOthers(CudnnGraphs graphs) {
        for (int side = 2; side <= 3 * MOST; side++) {
            run(graphs, side);
        }
    }

    @Test
    void comparesEnginesWhileThereIsTime() {
        System.setProperty("starling.cuda.autotune", "true");
        try {
            double seconds = PlanningTime.seconds();
            int count = PlanningTime.graphs();
            long descriptors = PlayedLibraries.descriptors();
            long before = PlayedLibraries.computed();
            run(graphs(), DType.BF16, 5, false);
            assertThat(PlayedLibraries.computed() - before).as("two engines, four times each, and the call")
                    .isEqualTo(2 * 4 + 1);
            assertThat(PlanningTime.seconds()).isGreaterThan(seconds);
            assertThat(PlanningTime.graphs()).isEqualTo(count + 1);
            long compared = PlayedLibraries.descriptors() - descriptors;
            System.setProperty("starling.cuda.autotune.seconds", "0");
            before = PlayedLibraries.computed();
            descriptors = PlayedLibraries.descriptors();
            run(graphs(), DType.BF16, 5, false);
            assertThat(PlayedLibraries.computed() - before).isEqualTo(1);
            assertThat(compared).as("the slower one is given back").isEqualTo(
                    PlayedLibraries.descriptors() - descriptors);
        } finally {
            System.clearProperty("starling.cuda.autotune");
            System.clearProperty("starling.cuda.autotune.seconds");
        }
    }

    /** The families share it. */
    @Test
    void makesOneHandleWhenItIsFirstAsked() {
        long before = PlayedLibraries.handles();
        Cudnn other = new Cudnn(gpu, gpu.stream(), memory);
        CudnnConvolver convolver = new CudnnConvolver(other);
        CudnnRecurrer recurrer = new CudnnRecurrer(other);
        assertThat(PlayedLibraries.handles()).isEqualTo(before);
        assertThat(convolver.takes(DType.I32)).isFalse();
        assertThat(PlayedLibraries.handles()).isEqualTo(before);
        assertThat(convolver.takes(DType.F32)).isTrue();
        assertThat(recurrer.takes(DType.F32)).isTrue();
        assertThat(PlayedLibraries.handles()).isEqualTo(before + 1);
    }

    @Test
    void doesNotUseWhatWasBuiltForAnotherCuda() {
        PlayedLibraries.build(12080, 0);
        try {
            Cudnn other = new Cudnn(gpu, gpu.stream(), memory);
            assertThat(new CudnnConvolver(other).takes(DType.F32)).isFalse();
            assertThat(new CudnnRecurrer(other).takes(DType.F32)).isFalse();
            assertThat(told.warnings()).singleElement().asString().contains("cuDNN 9.19.0", "built for CUDA 12",
                    "for CUDA 13");
        } finally {
            PlayedLibraries.build(13010, 0);
        }
    }

    @Test
    void namesWhatIsTooOldForAttention() {
        PlayedLibraries.version(90501);
        try {
            CudnnAttender attender = new CudnnAttender(cudnn, gpu);
            AttentionCall.Rows rows = new AttentionCall.Rows(72, 72, 8);
            assertThat(attender.attends(new AttentionCall(DType.BF16, 1, 1, 9, 9, 8, 8, 1, false, rows, rows, rows,
                    rows, null, null))).isFalse();
            assertThat(told.warnings()).singleElement().asString().contains("cuDNN 9.5.1", "too old for attention",
                    "cuDNN 9.10.2", "org.bytedeco:cuda-redist-cudnn");
        } finally {
            PlayedLibraries.version(91900);
        }
    }
}
