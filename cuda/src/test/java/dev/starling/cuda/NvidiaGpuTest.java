package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.emulated.PlayedDriver;
import dev.starling.cuda.emulated.PlayedLibraries;
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

/** What is asked of NVIDIA's driver, of one that is played. */
@EnabledIf(value = "dev.starling.cuda.emulated.PlayedLibraries#arePossible",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
@Timeout(60)
class NvidiaGpuTest {
    private static final int OUT_OF_MEMORY = 2;
    private static final int UNKNOWN = 999;
    private static final Spec SPEC = new Spec(DType.F32, Shape.of(3), Device.reference());
    static final Compiler COMPILER = new Compiler() {
        @Override
        public String version() {
            return "played";
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
        PlayedDriver.devices(2);
        scope = Scope.open();
    }

    @AfterEach
    void end() {
        assertThat(PlayedLibraries.complaint()).isEmpty();
        scope.close();
        PlayedDriver.devices(0);
    }

    private CudaBackend backend() {
        return new CudaBackend(Device.cuda(0), new NvidiaGpu(0, COMPILER), Libraries.NONE,
                new KernelCompiler(COMPILER, "sm_90", programs));
    }

    private static void fill(CudaBackend backend) {
        backend.run(new Fill.Full(SPEC, 1), new Tensor[0], new Spec[] {SPEC});
    }

    @Test
    void bytesArrive() {
        NvidiaGpu gpu = new NvidiaGpu(1, COMPILER);
        assertThat(gpu.name()).isEqualTo("played 1");
        assertThat(gpu.identity()).isEqualTo("0000:01:00.0");
        assertThat(gpu.architecture()).isEqualTo("sm_90");
        assertThat(NvidiaGpu.count()).isEqualTo(2);
        assertThat(NvidiaGpu.describe(0)).isEqualTo("played 0, 141 GiB, compute capability 9.0");
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

    /** A virtual thread goes on in a system's thread where another one has used another device meanwhile. */
    @Test
    void virtualThreadsTakeTheirDeviceAlong() throws Exception {
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

    /** Keeps all memory but {@code rest} in the cache. */
    private static void keepAllBut(CudaBackend backend, long rest) {
        backend.memory().free(backend.memory().allocate(8 << 20));
        assertThat(backend.memory().use().cached()).isPositive();
        PlayedDriver.leave(rest);
    }

    @Test
    void cachedMemoryGivesWayToKernels() {
        CudaBackend backend = backend();
        keepAllBut(backend, 0);
        fill(backend);
        assertThat(backend.memory().use().cached()).isZero();
    }

    @Test
    void cachedMemoryGivesWayToPinnedBuffers() {
        CudaBackend backend = backend();
        long address = backend.memory().allocate(64).address();
        keepAllBut(backend, 0);
        try (Arena arena = Arena.ofConfined()) {
            backend.upload(arena.allocate(64).address(), address, 64);
        }
        assertThat(backend.memory().use().live()).isPositive();
    }

    @Test
    void cachedMemoryGivesWayToGraphs() {
        CudaBackend backend = backend();
        fill(backend);
        backend.record(1, _ -> fill(backend)).close();
        keepAllBut(backend, 0);
        try (Recording recording = backend.record(1, _ -> fill(backend))) {
            assertThat(recording).isNotNull();
            long before = PlayedDriver.count("launches");
            recording.run();
            assertThat(PlayedDriver.count("launches")).isEqualTo(before + 1);
            recording.renew(0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"cuModuleLoadData", "cuFuncLoad", "cuLaunchKernel"})
    void whatStillHasNoMemorySaysHowMuchIsLent(String call) {
        PlayedDriver.fail(call, OUT_OF_MEMORY, 1);
        fill(backend());
        CudaBackend backend = backend();
        backend.memory().allocate(2 << 20);
        PlayedDriver.leave(3 << 20);
        PlayedDriver.fail(call, OUT_OF_MEMORY, 2);
        assertThatThrownBy(() -> fill(backend)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.MEMORY);
            assertThat(e.op()).isEqualTo("full");
            assertThat(e).hasMessageContaining("cuda:0 reports " + call).hasMessageContaining("out of memory")
                    .hasMessageContaining("with 2097152 bytes live and 0 cached on played 0, which has ")
                    .hasMessageContaining("use smaller batches");
        });
        fill(backend);
    }

    /** Whatever goes wrong leaves neither a graph nor the stream in the midst of one. */
    @ParameterizedTest
    @ValueSource(strings = {"cuStreamBeginCapture_v2", "cuStreamGetCaptureInfo_v3", "cuLaunchKernel",
        "cuStreamEndCapture", "cuGraphInstantiateWithFlags"})
    void captureEndsWhateverFails(String call) throws Exception {
        CudaBackend backend = backend();
        fill(backend);
        Recording[] recordings = new Recording[2];
        inThread(() -> {
            PlayedDriver.fail(call, UNKNOWN, 1);
            recordings[0] = backend.record(1, _ -> fill(backend));
        });
        assertThat(recordings[0]).isNull();
        assertNothingIsLeft(backend);
        long pinned = PlayedDriver.count("pinned");
        inThread(() -> recordings[1] = backend.record(1, _ -> fill(backend)));
        assertThat(recordings[1]).isNotNull();
        // The other thread's place was held for a graph that is none.
        assertThat(PlayedDriver.count("pinned")).isEqualTo(pinned);
        recordings[1].run();
        recordings[1].close();
        assertNothingIsLeft(backend);
    }

    @Test
    void captureEndsWhenAPartThrows() {
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
    void captureEndsWhenAPartWaits() {
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
        assertThat(PlayedDriver.count("graphs")).isZero();
        assertThat(PlayedDriver.count("executables")).isZero();
        long before = PlayedDriver.count("launches");
        fill(backend);
        assertThat(PlayedDriver.count("launches")).isEqualTo(before + 1);
    }

    private static void inThread(Runnable body) throws InterruptedException {
        Thread.ofPlatform().start(() -> {
            try (Scope own = Scope.open()) {
                body.run();
            }
        }).join();
    }

    @Test
    void memoryOfTheHostIsLockedForCopiesBesideKernels() {
        CudaBackend backend = backend();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(128, 64);
            long address = backend.memory().allocate(64).address();
            long events = PlayedDriver.count("events");
            try (PinnedMemory memory = backend.pin(host.address(), 128)) {
                assertThat(PlayedDriver.count("registered")).isEqualTo(1);
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
            assertThat(PlayedDriver.count("registered")).isZero();
            assertThat(PlayedDriver.count("events")).isEqualTo(events);
        }
    }

    @Test
    void memoryThatCannotBeLockedIsCopiedWhileTheHostWaits() {
        CudaBackend backend = backend();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(64, 64);
            long address = backend.memory().allocate(64).address();
            PlayedDriver.fail("cuMemHostRegister_v2", UNKNOWN, 1);
            try (PinnedMemory memory = backend.pin(host.address(), 64)) {
                assertThat(PlayedDriver.count("registered")).isZero();
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
    void eventsOfUploadsAreGivenBack() {
        CudaBackend backend = backend();
        long before = PlayedDriver.count("events");
        for (int i = 0; i < 10; i++) {
            try (Uploader uploader = backend.uploader()) {
                uploader.lend();
            }
        }
        assertThat(PlayedDriver.count("events")).isEqualTo(before);
    }
}
