package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.spi.PinnedMemory;
import dev.starling.tensor.spi.Recording;
import dev.starling.tensor.spi.Uploader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The calls of NVIDIA's driver, checked by a fake driver. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
@Timeout(60)
class NvidiaGpuTest {
    private static final int OUT_OF_MEMORY = 2;
    private static final int UNKNOWN = 999;
    private static final Spec SPEC = new Spec(DType.F32, Shape.of(3), Device.reference());
    static final Compiler COMPILER = new Compiler() {
        @Override
        public String version() {
            return "fake";
        }

        @Override
        public byte[] compile(String name, String source, String architecture) {
            return new byte[] {1};
        }
    };

    @TempDir
    Path programs;

    private Scope scope;

    @BeforeEach
    void begin() {
        FakeDriver.devices(2);
        scope = Scope.open();
    }

    @AfterEach
    void end() {
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
        scope.close();
        FakeDriver.devices(0);
    }

    private CudaBackend backend() {
        return new CudaBackend(Device.cuda(0), new NvidiaGpu(0, COMPILER), Libraries.NONE, CudaConfig.read(),
                new KernelCompiler(COMPILER, "sm_90", programs));
    }

    private static void fill(CudaBackend backend) {
        backend.run(new Fill.Full(SPEC, 1), new Tensor[0], new Spec[] {SPEC});
    }

    @Test
    void copiesBytes() {
        NvidiaGpu gpu = new NvidiaGpu(1, COMPILER);
        assertThat(gpu.name()).isEqualTo("fake 1");
        assertThat(gpu.identity()).isEqualTo("0000:01:00.0");
        assertThat(gpu.architecture()).isEqualTo("sm_90");
        assertThat(NvidiaGpu.count()).isEqualTo(2);
        assertThat(NvidiaGpu.describe(0)).isEqualTo("fake 0, 141 GiB, compute capability 9.0");
        Gpu.Stream stream = gpu.stream();
        Gpu.Event event = gpu.event();
        long device = gpu.allocate(64);
        MemorySegment host = MemorySegment.ofAddress(gpu.allocatePinned(48)).reinterpret(48);
        host.asSlice(0, 16).fill((byte) 1);
        gpu.upload(host.address(), device, 16, stream);
        gpu.fill(device + 16, (byte) 2, 16, stream);
        gpu.copy(device + 8, device + 32, 16, stream);
        gpu.download(device, host.address(), 48, stream);
        gpu.record(event, stream);
        gpu.await(event);
        assertThat(gpu.isDone(event)).isTrue();
        byte[] expected = new byte[48];
        for (int i = 0; i < expected.length; i++) {
            expected[i] = (byte) (i < 16 || i >= 32 && i < 40 ? 1 : 2);
        }
        assertThat(host.toArray(ValueLayout.JAVA_BYTE)).isEqualTo(expected);
        gpu.closeEvent(event);
        gpu.freePinned(host.address());
        gpu.free(device);
    }

    /** A virtual thread may resume on a carrier that another thread has used with another device. */
    @Test
    void keepsTheDeviceOfVirtualThreads() throws Exception {
        List<FutureTask<Void>> all = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            Gpu gpu = new NvidiaGpu(i % 2, COMPILER);
            FutureTask<Void> task = new FutureTask<>(() -> {
                Gpu.Stream stream = gpu.stream();
                Gpu.Event event = gpu.event();
                for (int k = 0; k < 200; k++) {
                    gpu.record(event, stream);
                    Thread.yield();
                    gpu.await(event, stream);
                    gpu.synchronize(stream);
                }
                gpu.closeEvent(event);
                return null;
            });
            Thread.ofVirtual().start(task);
            all.add(task);
        }
        for (FutureTask<Void> each : all) {
            assertThatCode(() -> result(each)).doesNotThrowAnyException();
        }
    }

    private static void result(FutureTask<Void> task) throws Throwable {
        try {
            task.get();
        } catch (ExecutionException e) {
            throw e.getCause();
        }
    }

    /** Caches all memory except {@code rest}. */
    private static void cacheAllBut(CudaBackend backend, long rest) {
        backend.memory().free(backend.memory().allocate(8 << 20));
        assertThat(backend.memory().use().cached()).isPositive();
        FakeDriver.limitMemory(rest);
    }

    @Test
    void freesCachedMemoryForKernels() {
        CudaBackend backend = backend();
        cacheAllBut(backend, 0);
        fill(backend);
        assertThat(backend.memory().use().cached()).isZero();
    }

    @Test
    void freesCachedMemoryForPinnedBuffers() {
        CudaBackend backend = backend();
        long address = backend.memory().allocate(64).address();
        cacheAllBut(backend, 0);
        try (Arena arena = Arena.ofConfined()) {
            backend.upload(arena.allocate(64).address(), address, 64);
        }
        assertThat(backend.memory().use().live()).isPositive();
    }

    @Test
    void freesCachedMemoryForGraphs() {
        CudaBackend backend = backend();
        fill(backend);
        backend.record(1, _ -> fill(backend)).close();
        cacheAllBut(backend, 0);
        try (Recording recording = backend.record(1, _ -> fill(backend))) {
            assertThat(recording).isNotNull();
            long before = FakeDriver.count("launches");
            recording.run();
            assertThat(FakeDriver.count("launches")).isEqualTo(before + 1);
            recording.renew(0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"cuModuleLoadData", "cuFuncLoad", "cuLaunchKernel"})
    void reportsMemoryUseIfMemoryRunsOut(String call) {
        FakeDriver.fail(call, OUT_OF_MEMORY, 1);
        fill(backend());
        CudaBackend backend = backend();
        backend.memory().allocate(2 << 20);
        FakeDriver.limitMemory(3 << 20);
        FakeDriver.fail(call, OUT_OF_MEMORY, 2);
        assertThatThrownBy(() -> fill(backend)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.MEMORY);
            assertThat(e.op()).isEqualTo("full");
            assertThat(e).hasMessageContaining("cuda:0 reports " + call).hasMessageContaining("out of memory")
                    .hasMessageContaining("with 2097152 bytes in use and 0 cached on fake 0, which has ")
                    .hasMessageContaining("use smaller batches");
        });
        fill(backend);
    }

    /** Every failure ends both the graph and the stream's capture. */
    @ParameterizedTest
    @ValueSource(strings = {"cuStreamBeginCapture_v2", "cuStreamGetCaptureInfo_v3", "cuLaunchKernel",
        "cuStreamEndCapture", "cuGraphInstantiateWithFlags"})
    void endsACaptureWhateverFails(String call) throws Exception {
        CudaBackend backend = backend();
        fill(backend);
        Recording[] recordings = new Recording[2];
        inThread(() -> {
            FakeDriver.fail(call, UNKNOWN, 1);
            recordings[0] = backend.record(1, _ -> fill(backend));
        });
        assertThat(recordings[0]).isNull();
        assertNothingIsLeft(backend);
        long pinned = FakeDriver.count("pinned");
        inThread(() -> recordings[1] = backend.record(1, _ -> fill(backend)));
        assertThat(recordings[1]).isNotNull();
        // The other thread's slot was reserved for the failed graph, and is free again.
        assertThat(FakeDriver.count("pinned")).isEqualTo(pinned);
        recordings[1].run();
        recordings[1].close();
        assertNothingIsLeft(backend);
    }

    @Test
    void endsACaptureWhenAPartThrows() {
        CudaBackend backend = backend();
        fill(backend);
        assertThatThrownBy(() -> backend.record(2, part -> {
            fill(backend);
            if (part == 1) {
                throw new IllegalStateException("mine");
            }
        })).hasMessage("mine");
        assertNothingIsLeft(backend);
    }

    @Test
    void endsACaptureWhenAPartWaits() {
        CudaBackend backend = backend();
        fill(backend);
        try (Arena arena = Arena.ofConfined()) {
            long host = arena.allocate(64).address();
            long address = backend.memory().allocate(64).address();
            assertThat(backend.record(1, _ -> {
                fill(backend);
                backend.download(address, host, 64);
            })).isNull();
        }
        assertNothingIsLeft(backend);
    }

    private static void assertNothingIsLeft(CudaBackend backend) {
        assertThat(FakeDriver.count("graphs")).isZero();
        assertThat(FakeDriver.count("executables")).isZero();
        long before = FakeDriver.count("launches");
        fill(backend);
        assertThat(FakeDriver.count("launches")).isEqualTo(before + 1);
    }

    private static void inThread(Runnable body) throws InterruptedException {
        Thread.ofPlatform().start(() -> {
            try (Scope own = Scope.open()) {
                body.run();
            }
        }).join();
    }

    @Test
    void pinsHostMemoryForCopiesBesideKernels() {
        CudaBackend backend = backend();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(128, 64);
            long address = backend.memory().allocate(64).address();
            long events = FakeDriver.count("events");
            try (PinnedMemory memory = backend.pin(host.address(), 128)) {
                assertThat(FakeDriver.count("registered")).isEqualTo(1);
                PinnedMemory.Part part = memory.part(64, 64);
                host.fill((byte) 3);
                part.upload(address);
                host.fill((byte) 0);
                part.download(address);
                assertThat(part.isDone()).isTrue();
                part.close();
            }
            assertThat(host.get(ValueLayout.JAVA_BYTE, 63)).isZero();
            assertThat(host.get(ValueLayout.JAVA_BYTE, 64)).isEqualTo((byte) 3);
            assertThat(FakeDriver.count("registered")).isZero();
            assertThat(FakeDriver.count("events")).isEqualTo(events);
        }
    }

    @Test
    void copiesHostMemoryThatCannotBePinnedSynchronously() {
        CudaBackend backend = backend();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(64, 64);
            long address = backend.memory().allocate(64).address();
            FakeDriver.fail("cuMemHostRegister_v2", UNKNOWN, 1);
            try (PinnedMemory memory = backend.pin(host.address(), 64)) {
                assertThat(FakeDriver.count("registered")).isZero();
                PinnedMemory.Part part = memory.part(0, 64);
                host.fill((byte) 3);
                part.upload(address);
                host.fill((byte) 0);
                part.download(address);
                assertThat(part.isDone()).isTrue();
            }
            assertThat(host.get(ValueLayout.JAVA_BYTE, 63)).isEqualTo((byte) 3);
        }
    }

    @Test
    void destroysEventsOfUploads() {
        CudaBackend backend = backend();
        long before = FakeDriver.count("events");
        for (int i = 0; i < 10; i++) {
            try (Uploader uploader = backend.uploader()) {
                uploader.lend();
            }
        }
        assertThat(FakeDriver.count("events")).isEqualTo(before);
    }
}
