package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.CudaProvider.Card;
import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.gpu.Nvrtc;
import dev.starling.tensor.spi.Library;
import dev.starling.tensor.spi.Probe;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** What the provider reports of a machine. */
class CudaProviderTest {
    private static final Card OLD = new Card("NVIDIA V100", 70);
    private static final Card NEW = new Card("NVIDIA H200", 90);
    private static final Card OLDEST = new Card("NVIDIA T4", 75);

    private static Probe.Missing missing(int driver, Card... cards) {
        return (Probe.Missing) CudaProvider.assess(driver, List.of(cards));
    }

    private static Probe.Ready ready(Card... cards) {
        return (Probe.Ready) CudaProvider.assess(13020, List.of(cards));
    }

    @Test
    void reportsDriversAndGpusThatAreTooOld() {
        assertThat(missing(12090, NEW).reason()).isEqualTo("the NVIDIA driver supports CUDA 12.9, Starling needs 13.0");
        assertThat(missing(13000).reason()).contains("finds no GPU");
        assertThat(missing(13000, OLD).reason()).isEqualTo(
                "the GPU is too old: NVIDIA V100; CUDA 13 needs compute capability 7.5");
        assertThat(missing(13000, OLD, NEW).remedy()).contains("CUDA_VISIBLE_DEVICES");
    }

    @Test
    void offersGpusBeforeTheFirstThatIsTooOld() {
        assertThat(ready(NEW).devices()).isEqualTo(1);
        assertThat(ready(NEW, OLDEST).description()).isEqualTo("2 × NVIDIA H200, driver for CUDA 13.2");
        assertThat(ready(NEW, OLD, OLDEST).devices()).isEqualTo(1);
        assertThat(ready(NEW, OLD).description()).contains("too old").contains("NVIDIA V100");
    }

    @Test
    @EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
            disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
    void reportsVersionsAndWhatIsTooOld() {
        assertThat(InstalledLibraries.detect()).containsExactly(new Library("cuBLASLt", "13.1.1", ""),
                new Library("cuDNN", "9.19.0", ""), new Library("NCCL", "2.29.3", ""));
        FakeLibraries.version(90900);
        try {
            Library old = InstalledLibraries.detect().get(1);
            assertThat(old.state()).isEqualTo("9.9.0: too old for attention, which is slow without it");
            assertThat(old.remedy()).contains("cuDNN 9.10.2 or newer", "org.bytedeco:cuda-redist-cudnn:");
        } finally {
            FakeLibraries.version(91900);
        }
    }

    @Test
    @EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
            disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
    void reportsALibraryBuiltForAnotherCuda() {
        FakeLibraries.load();
        try {
            FakeLibraries.build(12080, 0);
            assertThat(InstalledLibraries.detect().get(1).state()).startsWith("9.19.0: built for CUDA 12,");
            assertThat(InstalledLibraries.detect().get(1).remedy()).contains("for CUDA 13");
            FakeLibraries.build(13000, 1008);
            assertThat(InstalledLibraries.detect().get(1).state()).isEqualTo(
                    "9.19.0: its library libcudnn_cnn is of another version or cannot be loaded (status 1008)");
        } finally {
            FakeLibraries.build(13010, 0);
        }
    }

    /** There is no fake NVRTC: if the real one is missing, the provider reports that. */
    @Test
    @EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
            disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
    void detectsDriverGpusAndLibraries() {
        CudaProvider provider = new CudaProvider();
        assertThat(provider.probe()).isInstanceOfSatisfying(Probe.Missing.class,
                m -> assertThat(m.reason()).contains("does not work: cuInit: error 100"));
        assertThat(provider.libraries()).isEmpty();
        FakeDriver.devices(2);
        try {
            if (Nvrtc.isAvailable()) {
                assertThat(provider.probe()).isInstanceOfSatisfying(Probe.Ready.class, r -> {
                    assertThat(r.devices()).isEqualTo(2);
                    assertThat(r.description()).startsWith("2 × fake 0, ").contains("compute capability 9.0",
                            "driver for CUDA 13.2", "NVRTC 13");
                });
                assertThat(provider.libraries()).extracting(Library::name).containsExactly("cuBLASLt", "cuDNN", "NCCL");
            } else {
                assertThat(provider.probe()).isInstanceOfSatisfying(Probe.Missing.class,
                        m -> assertThat(m.reason()).isEqualTo("the CUDA library libnvrtc.so.13 is missing"));
            }
        } finally {
            FakeDriver.devices(0);
        }
    }
}
