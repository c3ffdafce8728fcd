package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.gpu.Nvtx;
import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.profile.Profile;
import dev.starling.tensor.profile.Profile.Total;
import dev.starling.tensor.profile.Profiler;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;

class ObservationTest {
    /** Records calls, as NVTX passes them to a tool. */
    private static final String LIBRARY = """
            #include <string.h>
            char calls[4096];
            int nvtxRangePushA(const char* name) { strcat(strcat(calls, "("), name); return 0; }
            int nvtxRangePop(void) { strcat(calls, ")"); return 0; }
            """;

    @TempDir
    Path directory;

    static boolean isCompilerAvailable() {
        return Emulation.isAvailable();
    }

    private static CudaBackend backend() {
        return new CudaBackend(Device.cuda(0), new QueuedGpu(32 << 20), Libraries.NONE);
    }

    @Test
    @EnabledIf("isCompilerAvailable")
    void namesNvtxRangesAfterOperations() throws IOException, InterruptedException {
        Path source = directory.resolve("nvtx.c");
        Path library = directory.resolve("libnvtx.so");
        Files.writeString(source, LIBRARY);
        assertThat(new ProcessBuilder("gcc", "-shared", "-fPIC", "-o", library.toString(), source.toString())
                .inheritIO().start().waitFor()).isZero();
        System.setProperty("starling.nvtx", library.toString());
        try {
            CudaBackend backend = backend();
            Spec spec = new Spec(DType.F32, Shape.of(3), Device.reference());
            for (int i = 0; i < 2; i++) {
                backend.run(new Fill.Full(spec, 1), new Tensor[0], new Spec[] {spec});
            }
            MemorySegment calls = SymbolLookup.libraryLookup(library, Arena.global()).findOrThrow("calls");
            assertThat(calls.reinterpret(4096).getString(0)).isEqualTo("(full)(full)");
        } finally {
            System.clearProperty("starling.nvtx");
        }
    }

    @Test
    void makesNoRangesWithoutTheToolsExtension() {
        assertThat(Nvtx.load("false")).isNull();
        assertThat(Nvtx.load(directory.resolve("missing.so").toString())).isNull();
    }

    @Test
    void recordsWaitsAndRequestsForMemory() throws IOException {
        Path file = directory.resolve("waits.jfr");
        try (Profiler profiler = Profiler.start(file); Arena arena = Arena.ofConfined()) {
            CudaBackend backend = backend();
            long address = backend.memory().allocate(2 << 20).address();
            for (int i = 0; i < 3; i++) {
                backend.download(address, arena.allocate(64).address(), 64);
            }
        }
        Profile profile = Profile.read(file);
        assertThat(profile.waits()).filteredOn(t -> t.name().equals("download")).singleElement()
                .matches(t -> t.calls() == 3 && t.device().equals("queued GPU"));
        assertThat(profile.requests()).isEqualTo(List.of(new Total("allocate", "cuda:0", 1, 2 << 20)));
    }
}
