package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.Chain;
import dev.starling.tensor.spi.Probe;
import dev.starling.tensor.spi.Recording;
import dev.starling.tensor.spi.Uploader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

class CudaBackendTest {
    @Test
    void namesTheOperationInErrorsOfTheDevice() {
        QueuedGpu gpu = new QueuedGpu(1 << 20);
        CudaBackend backend = new CudaBackend(Device.cuda(0), gpu, Libraries.NONE);
        Spec spec = new Spec(DType.F32, Shape.of(3), Device.reference());
        gpu.failWith("cuLaunchKernel: error 700, an illegal memory access was encountered");
        assertThatThrownBy(() -> backend.run(new Fill.Full(spec, 1), new Tensor[0], new Spec[] {spec}))
                .isInstanceOfSatisfying(TensorException.class, e -> {
                    assertThat(e.problem()).isEqualTo(TensorException.Problem.DEVICE);
                    assertThat(e.op()).isEqualTo("full");
                    assertThat(e).hasMessageContaining("cuda:0 reports cuLaunchKernel: error 700")
                            .hasMessageContaining("CUDA_LAUNCH_BLOCKING=1").hasCauseInstanceOf(GpuException.class);
                });
    }

    /** A kernel fails while it runs: the next wait reports it, in synchronous mode the failing operation itself. */
    @Test
    void namesTheFailedOperationInSynchronousMode() {
        Spec spec = new Spec(DType.F32, Shape.of(3), Device.reference());
        Fill guilty = new Fill.Full(spec, 1);
        for (boolean synchronous : new boolean[] {false, true}) {
            System.setProperty("starling.cuda.synchronous", Boolean.toString(synchronous));
            try (Arena arena = Arena.ofConfined()) {
                QueuedGpu gpu = new QueuedGpu(32 << 20);
                CudaBackend backend = new CudaBackend(Device.cuda(0), gpu, Libraries.NONE);
                long address = backend.memory().allocate(64).address();
                gpu.failLater("cuStreamSynchronize: error 700, an illegal memory access was encountered");
                assertThatThrownBy(() -> {
                    backend.run(guilty, new Tensor[0], new Spec[] {spec});
                    backend.download(address, arena.allocate(64).address(), 64);
                }).isInstanceOfSatisfying(TensorException.class, e -> {
                    assertThat(e.op()).isEqualTo(synchronous ? guilty.name() : "download");
                    assertThat(e).hasMessageContaining("error 700").hasMessageContaining(
                            synchronous ? "report it" : "it may be an earlier one");
                });
            } finally {
                System.clearProperty("starling.cuda.synchronous");
            }
        }
    }

    @Test
    void namesFailedFusedOperationsInSynchronousMode() {
        System.setProperty("starling.cuda.synchronous", "true");
        try (Scope scope = Scope.open()) {
            QueuedGpu gpu = new QueuedGpu(32 << 20);
            CudaBackend backend = new CudaBackend(Device.cuda(0), gpu, Libraries.NONE);
            Tensor x = Device.with(Device.reference(), () -> Tensor.zeros(3));
            Chain.Kernel kernel = backend.fuse(new Chain(List.of(x.spec()), List.of(
                    new Chain.Step(Unary.EXP, List.of(0), x.spec()),
                    new Chain.Step(Unary.NEG, List.of(1), x.spec()))));
            gpu.failLater("cuStreamSynchronize: error 700, an illegal memory access was encountered");
            assertThatThrownBy(() -> kernel.run(new Tensor[] {x})).isInstanceOfSatisfying(TensorException.class, e -> {
                assertThat(e.op()).isEqualTo("fused neg");
                assertThat(e).hasMessageContaining("error 700").hasMessageContaining("report it");
            });
        } finally {
            System.clearProperty("starling.cuda.synchronous");
        }
    }

    /** The captured stream may not wait for an upload, which is not part of the graph. */
    @Test
    void capturesWhileMemoryIsFreed() {
        QueuedGpu gpu = new QueuedGpu(32 << 20);
        CudaBackend backend = new CudaBackend(Device.cuda(0), gpu, Libraries.NONE);
        Block block = backend.memory().allocate(1 << 20);
        try (Arena arena = Arena.ofConfined(); Uploader uploader = backend.uploader()) {
            uploader.lend();
            uploader.copy(arena.allocate(64).fill((byte) 7).address(), block.address(), 64);
            Recording recording = backend.record(1, _ -> {
                Thread other = Thread.ofPlatform().start(() -> backend.memory().free(block));
                try {
                    other.join();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
            assertThat(recording).isNotNull();
            recording.close();
            MemorySegment read = arena.allocate(64);
            backend.download(block.address(), read.address(), 64);
            assertThat(read.toArray(ValueLayout.JAVA_BYTE)).containsOnly(7);
            assertThat(backend.record(1, _ -> uploader.lend())).isNull();
            assertThat(backend.record(1, _ -> { })).isNotNull();
        }
    }

    @Test
    @EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
    void reportsABadIndexImmediatelyInSynchronousMode() {
        Device device = Device.of("cuda-emulated", 0);
        device.backend(); // opened first, so that it is not synchronous for other tests
        System.setProperty("starling.cuda.synchronous", "true");
        try (Scope scope = Scope.open()) {
            CudaBackend backend = new CudaBackend(device, Emulation.gpu(), Libraries.NONE);
            Tensor[] inputs = {Tensor.of(new float[] {1, 2, 3}).to(device), Tensor.of(new long[] {0, -4}).to(device)};
            Selection take = new Selection.Take(0);
            Spec[] outputs = take.infer(inputs[0].spec(), inputs[1].spec());
            assertThatThrownBy(() -> backend.run(take, inputs, outputs)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("take: index -4 at position 1 must lie between -3 and 2");
            Tensor[] sound = {inputs[0], Tensor.of(new long[] {0, -3}).to(device)};
            assertThat(backend.run(take, sound, outputs)[0].toFloats()).containsExactly(1, 1);
        } finally {
            System.clearProperty("starling.cuda.synchronous");
        }
    }

    @Test
    void namesAMissingLibraryWithARemedy() {
        LinkageError error = new UnsatisfiedLinkError("no jnicudart in java.library.path");
        error.initCause(new UnsatisfiedLinkError("/x/libjnicudart.so: libcudart.so.13: cannot open shared object file: "
                + "No such file or directory"));
        Probe.Missing missing = CudaProvider.missingLibrary(error);
        assertThat(missing.reason()).isEqualTo("the CUDA library libcudart.so.13 is missing");
        assertThat(missing.remedy()).contains("LD_LIBRARY_PATH", "cuda-redist");
        error = new UnsatisfiedLinkError("nvrtc64_130_0.dll: cannot open shared object file");
        assertThat(CudaProvider.missingLibrary(error).reason()).contains("library nvrtc64_130_0.dll is missing");
    }

    @Test
    void probesWithoutThrowing() {
        assertThat(new CudaProvider().probe()).isNotNull();
    }
}
